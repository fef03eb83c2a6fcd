"""The commit log of an output: its sequence of manifests, and the commit of the next one.

Commit *n* is the file ``_aiokproto/commits/<n>.json``. It's created exclusively and completely, and never changed or
removed, so exactly one of the loads that try to be number *n* succeeds, and every reader sees the same commit. Creating
it is the only decision in a load: before it, none of the load's files are part of the output; after it, all are.

A call that fails may have taken effect. So the load reads the file back, and its token identifies the load that wrote
it. If the file can be neither created nor read, the outcome is unknown: :class:`CommitUncertainError` reports it, and
the files stay because the commit may exist.

A file listing may be out of date, so it isn't used to find the end of the log. The hint ``_aiokproto/last.json`` names
a checkpoint, which contains the history up to its number. The commits after it are read one by one until one is
missing. An old, lost or damaged hint costs more reads, and has no other effect. A checkpoint is computed from the
commits alone, so it's the same whichever load writes it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from typing import NamedTuple

from aiokproto.spark.loads.history import History
from aiokproto.spark.loads.manifest import Manifest, ManifestError
from aiokproto.spark.loads.storage import FOLDER, Storage, StorageError

logger = logging.getLogger("aiokproto.spark")

HINT = f"{FOLDER}/last.json"
CHECKPOINT_EVERY = 10
"""Number of commits between checkpoints. A checkpoint contains their manifests, so reading them all takes one file for
every ten."""

DIGEST_LENGTH = 65
"""Length of the digest at the start of a checkpoint: a SHA-256 in hex, and a newline."""

MAX_ATTEMPTS = 4
"""How often to try to create a commit, and check whether it exists, before its outcome counts as uncertain."""


class CommitUncertainError(StorageError):
    """It's unknown whether a manifest was committed. The next load, or :func:`runs`, sees whether the commit exists."""


class Committed(NamedTuple):
    """A committed manifest, and the history that includes it."""

    manifest: Manifest
    history: History


def _digest(text: bytes) -> bytes:
    """Return the digest of a checkpoint. If there were none, readers wouldn't notice damaged numbers."""
    return hashlib.sha256(text).hexdigest().encode() + b"\n"


def commit_name(number: int) -> str:
    """Return the file name of a commit. The fixed number of digits keeps listings in order."""
    return f"{FOLDER}/commits/{number:012}.json"


def checkpoint_name(number: int) -> str:
    """Return the file name of a checkpoint."""
    return f"{FOLDER}/checkpoints/{number:012}.json"


class _Checkpoint(NamedTuple):
    history: History
    manifests: list[Manifest]


class CommitLog:
    """The commits of an output, in order."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        # Manifests that were read or committed after the last checkpoint. The next checkpoint needs them.
        self._recent: dict[int, Manifest] = {}

    def latest(self) -> History:
        """Return the history up to the last commit.

        Raises:
            ManifestError: A manifest can't be read, or contradicts the earlier ones.
        """
        history = self._last_checkpoint()
        while (manifest := self._read(history.number + 1)) is not None:
            history = history.then(manifest)
            self._recent[manifest.number] = manifest
        return history

    def manifest(self, number: int) -> Manifest:
        """Return the manifest of a commit.

        Raises:
            ManifestError: It doesn't exist, or can't be read.
        """
        manifest = self._read(number)
        if manifest is None:
            raise ManifestError(f"manifest {number} of {self._storage.uri} does not exist")
        return manifest

    def manifests(self) -> Iterator[Manifest]:
        """Yield all manifests, in order. Up to the last checkpoint they're read from checkpoints.

        Raises:
            ManifestError: A manifest can't be read, or contradicts the earlier ones.
        """
        history = History()
        while following := list(self._following(history.number)):
            for manifest in following:
                history = history.then(manifest)
                yield manifest

    def commit(self, manifest: Manifest, history: History) -> Committed:
        """Commit a manifest after ``history``, or after manifests that other loads have committed since.

        Raises:
            ConflictError: Another load has committed the same records, or replaced the same attempt.
            CommitUncertainError: The storage failed, and it's unknown whether the manifest is committed.
        """
        while True:
            manifest = manifest.numbered(history.number + 1)
            after = history.then(manifest)
            committed = self._create(manifest)
            self._recent[committed.number] = committed
            if committed == manifest:
                self._write_checkpoint(after)
                return Committed(manifest, after)
            history = history.then(committed)

    def _create(self, manifest: Manifest) -> Manifest:
        """Create the commit, and return the manifest that got the number: this one, or another load's."""
        name, data = commit_name(manifest.number), manifest.to_text()
        failure: object = "the storage neither creates nor finds it"
        for _ in range(MAX_ATTEMPTS):
            try:
                if self._storage.create(name, data):
                    return manifest
            except Exception as error:  # noqa: BLE001 - a storage raises its library's errors
                logger.warning("commit %s in %s failed: %r; checking whether it exists", name, self._storage.uri, error)
                failure = error
            # Read the file, which may be ours: a call that failed, now or before, may have taken effect.
            try:
                if (existing := self._read(manifest.number)) is not None:
                    return existing
            except ManifestError:
                raise
            except Exception as error:  # noqa: BLE001
                logger.warning("commit %s in %s: cannot check whether it exists: %r", name, self._storage.uri, error)
                failure = error
        raise CommitUncertainError(
            f"{manifest.title}: unknown whether it was committed as {name} in {self._storage.uri}: {failure}. "
            f"Its files in {manifest.data} are kept; look at runs() before you load again"
        )

    def _write_checkpoint(self, history: History) -> None:
        """Write a checkpoint and the hint after every tenth commit. They only save reads for later loads."""
        number = history.number
        if number % CHECKPOINT_EVERY:
            return
        try:
            numbers = range(number - CHECKPOINT_EVERY + 1, number + 1)
            manifests = [self._recent.get(found) or self.manifest(found) for found in numbers]
            fields = {"history": history.as_json(), "manifests": [manifest.as_json() for manifest in manifests]}
            text = json.dumps(fields).encode()
            self._storage.write(checkpoint_name(number), _digest(text) + text)
            self._storage.write(HINT, json.dumps({"checkpoint": number}).encode())
        except Exception as error:  # noqa: BLE001
            logger.warning("checkpoint %d in %s was not written: %r", number, self._storage.uri, error)

    def _following(self, number: int) -> Iterator[Manifest]:
        """Yield the manifests after ``number``, up to the next checkpoint."""
        last = number + CHECKPOINT_EVERY - number % CHECKPOINT_EVERY
        if number % CHECKPOINT_EVERY == 0 and (checkpoint := self._checkpoint(last)) is not None:
            yield from checkpoint.manifests
            return
        while number < last and (manifest := self._read(number + 1)) is not None:
            yield manifest
            number += 1

    def _last_checkpoint(self) -> History:
        """Return the history of the checkpoint that the hint names, or an empty one."""
        try:
            hint = self._storage.read(HINT)
            checkpoint = None if hint is None else self._checkpoint(int(json.loads(hint)["checkpoint"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            logger.warning("ignoring %s in %s: %r", HINT, self._storage.uri, error)
            return History()
        return History() if checkpoint is None else checkpoint.history

    def _checkpoint(self, number: int) -> _Checkpoint | None:
        """Return a checkpoint; None if it doesn't exist or can't be read. The commits contain the same manifests."""
        name = checkpoint_name(number)
        data = self._storage.read(name)
        if data is None:
            return None
        try:
            text = data[DIGEST_LENGTH:]
            if data[:DIGEST_LENGTH] != _digest(text):
                raise ManifestError(f"checkpoint {name} is damaged")
            fields = json.loads(text)
            manifests = [Manifest.of_json(entry, name) for entry in fields["manifests"]]
            history = History.of_json(fields["history"])
            numbers = [manifest.number for manifest in manifests]
            if history.number != number or numbers != [*range(number - CHECKPOINT_EVERY + 1, number + 1)]:
                raise ManifestError(f"checkpoint {name} has manifests {numbers}, and a history up to {history.number}")
            return _Checkpoint(history, manifests)
        except (ManifestError, ValueError, TypeError, KeyError) as error:
            logger.warning("ignoring %s in %s: %r", name, self._storage.uri, error)
            return None

    def _read(self, number: int) -> Manifest | None:
        name = commit_name(number)
        data = self._storage.read(name)
        if data is None:
            return None
        manifest = Manifest.from_text(data, name)
        if manifest.number != number:
            raise ManifestError(f"manifest {name} has number {manifest.number}, expected {number}")
        return manifest
