"""The sequence of an output's manifests, and how one more becomes part of it.

Commit *n* is the file ``_aiokproto/commits/<n>.json``. It is created exclusively, whole, and never changed or removed:
so of all who try to be number *n* one succeeds, and everybody agrees who. There is no other decision in a load; before
it nothing counts, and after it all does.

A call that fails may have taken effect all the same. So the file is read back, and says by its token whose it is. While
it can neither be created nor read, the outcome is open: :class:`CommitUncertainError` says so, and nothing is cleaned
up, since the commit may still come to light.

Nobody lists files to find the end: a list may be late. The hint ``_aiokproto/last.json`` names a checkpoint, which has
the history up to it; from there on commits are read one by one until one is missing. A hint that is old, lost or
damaged costs more reading, and nothing else. A checkpoint says what the commits say: whoever writes it, it is the same.
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
"""A checkpoint has so many manifests in it, too: whoever wants to see all reads a file for each ten."""

DIGEST = 65
"""Bytes before a checkpoint: a SHA-256 in hex, and the end of its line."""

TRIES = 4
"""How often a commit is tried, and looked for, before its outcome is called uncertain."""


class CommitUncertainError(StorageError):
    """Whether a manifest was committed could not be found out. The next load, or :func:`runs`, will see it or not."""


class Committed(NamedTuple):
    """A manifest as it was committed, and the history with it."""

    manifest: Manifest
    history: History


def _digest(text: bytes) -> bytes:
    """What stands before a checkpoint: a damaged one would be believed, since nothing contradicts it."""
    return hashlib.sha256(text).hexdigest().encode() + b"\n"


def commit_name(number: int) -> str:
    """The file of a commit. As many digits as any output will need, so that a list is in order."""
    return f"{FOLDER}/commits/{number:012}.json"


def checkpoint_name(number: int) -> str:
    """The file of a checkpoint."""
    return f"{FOLDER}/checkpoints/{number:012}.json"


class _Checkpoint(NamedTuple):
    history: History
    manifests: list[Manifest]


class CommitLog:
    """The commits of an output."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        # Those after the last checkpoint, as far as they were read: the next checkpoint needs them.
        self._recent: dict[int, Manifest] = {}

    def latest(self) -> History:
        """The history up to the last commit.

        Raises:
            ManifestError: A manifest cannot be read, or contradicts those before it.
        """
        history = self._last_checkpoint()
        while (manifest := self._read(history.number + 1)) is not None:
            history = history.then(manifest)
            self._recent[manifest.number] = manifest
        return history

    def manifest(self, number: int) -> Manifest:
        """One of the commits.

        Raises:
            ManifestError: It is not there, or cannot be read.
        """
        found = self._read(number)
        if found is None:
            raise ManifestError(f"manifest {number} of {self._storage.uri} is not there")
        return found

    def manifests(self) -> Iterator[Manifest]:
        """All commits, in order; those up to the last checkpoint are read from checkpoints.

        Raises:
            ManifestError: A manifest cannot be read, or contradicts those before it.
        """
        history = History()
        while following := list(self._following(history.number)):
            for manifest in following:
                history = history.then(manifest)
                yield manifest

    def commit(self, manifest: Manifest, history: History) -> Committed:
        """Make a manifest the next one after ``history``, or after those that others committed meanwhile.

        Raises:
            ConflictError: It cannot follow what others committed: they have loaded the same, or have replaced the same.
            CommitUncertainError: The storage failed, and does not say whether it is committed.
        """
        while True:
            manifest = manifest.numbered(history.number + 1)
            after = history.then(manifest)
            found = self._create(manifest)
            self._recent[found.number] = found
            if found == manifest:
                self._keep(after)
                return Committed(manifest, after)
            history = history.then(found)

    def _create(self, manifest: Manifest) -> Manifest:
        """The manifest that has this one's number from now on: this one, or another."""
        name, data = commit_name(manifest.number), manifest.to_text()
        failure: object = "it is neither created nor there"
        for _ in range(TRIES):
            try:
                if self._storage.create(name, data):
                    return manifest
            except Exception as error:  # noqa: BLE001 - what a storage raises is its library's
                logger.warning("commit %s in %s: %r; looking whether it is there", name, self._storage.uri, error)
                failure = error
            # Maybe its own: a call that fails, or one before it, may have taken effect.
            try:
                if (found := self._read(manifest.number)) is not None:
                    return found
            except ManifestError:
                raise
            except Exception as error:  # noqa: BLE001
                logger.warning("commit %s in %s cannot be looked for: %r", name, self._storage.uri, error)
                failure = error
        raise CommitUncertainError(
            f"whether run {manifest.run_id} was committed as {name} in {self._storage.uri} is not known: {failure}. "
            f"Its files are kept in {manifest.data}; look at runs() before anything is loaded again"
        )

    def _keep(self, history: History) -> None:
        """Save the next loads some reading, now and then. Nothing depends on it."""
        number = history.number
        if number % CHECKPOINT_EVERY:
            return
        try:
            numbers = range(number - CHECKPOINT_EVERY + 1, number + 1)
            manifests = [self._recent.get(one) or self.manifest(one) for one in numbers]
            fields = {"history": history.as_json(), "manifests": [one.as_json() for one in manifests]}
            text = json.dumps(fields).encode()
            self._storage.write(checkpoint_name(number), _digest(text) + text)
            self._storage.write(HINT, json.dumps({"checkpoint": number}).encode())
        except Exception as error:  # noqa: BLE001
            logger.warning("the checkpoint of commit %d in %s was not written: %r", number, self._storage.uri, error)

    def _following(self, number: int) -> Iterator[Manifest]:
        """The manifests after ``number``, up to the next checkpoint."""
        last = number + CHECKPOINT_EVERY - number % CHECKPOINT_EVERY
        if number % CHECKPOINT_EVERY == 0 and (found := self._checkpoint(last)) is not None:
            yield from found.manifests
            return
        while number < last and (manifest := self._read(number + 1)) is not None:
            yield manifest
            number += 1

    def _last_checkpoint(self) -> History:
        """A history to begin with."""
        try:
            hint = self._storage.read(HINT)
            found = None if hint is None else self._checkpoint(int(json.loads(hint)["checkpoint"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            logger.warning("%s in %s is left out: %r", HINT, self._storage.uri, error)
            return History()
        return History() if found is None else found.history

    def _checkpoint(self, number: int) -> _Checkpoint | None:
        """A checkpoint, if it is to be had. One that cannot be read is as good as none: the commits say the same."""
        name = checkpoint_name(number)
        data = self._storage.read(name)
        if data is None:
            return None
        try:
            text = data[DIGEST:]
            if data[:DIGEST] != _digest(text):
                raise ManifestError(f"checkpoint {name} is damaged")
            fields = json.loads(text)
            manifests = [Manifest.of_json(one, name) for one in fields["manifests"]]
            history = History.of_json(fields["history"])
            numbers = [manifest.number for manifest in manifests]
            if history.number != number or numbers != [*range(number - CHECKPOINT_EVERY + 1, number + 1)]:
                raise ManifestError(f"checkpoint {name} is of manifests {numbers}, up to {history.number}")
            return _Checkpoint(history, manifests)
        except (ManifestError, ValueError, TypeError, KeyError) as error:
            logger.warning("%s in %s is left out: %r", name, self._storage.uri, error)
            return None

    def _read(self, number: int) -> Manifest | None:
        name = commit_name(number)
        data = self._storage.read(name)
        if data is None:
            return None
        manifest = Manifest.from_text(data, name)
        if manifest.number != number:
            raise ManifestError(f"manifest {name} calls itself number {manifest.number}")
        return manifest
