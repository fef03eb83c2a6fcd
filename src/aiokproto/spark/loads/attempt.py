"""One attempt at a load, from its plan to its commit. The order of its steps prevents lost and duplicate records.

::

    PLANNED ──write──→ WRITTEN ──count──→ COUNTED ──create the commit──→ COMMITTED ──→ checkpoint, every tenth
       │                  │                  │              │
       └────── fails: the files are removed ─┘              ├─ another load has the records: CONFLICT; files removed
                                                            └─ the outcome is unknown: UNCERTAIN; the files stay

========== ============================================ ==============================================================
state      what exists                                  what a driver that is killed here leaves
========== ============================================ ==============================================================
PLANNED    a range of offsets for each partition        nothing
WRITTEN    files in a directory of this attempt alone   files without a commit; the next load reads the same offsets
COUNTED    the same; the files were read back           the same
COMMITTED  the commit, which names the directory        a committed load; the next one starts at its end
UNCERTAIN  files, and a commit or not                   one or the other; the next load sees which
========== ============================================ ==============================================================

After the first try to commit, files are removed only if it's certain that another manifest has the number.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import NamedTuple

from aiokproto.spark.loads.columns import Columns
from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.history import ConflictError, History, SchemaError
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest
from aiokproto.spark.loads.storage import Storage, StorageError


class Written(NamedTuple):
    """The result of writing an attempt's files.

    Attributes:
        source_rows: Records read, before any transformation.
        rows: Rows written.
        columns: Columns of the rows.
    """

    source_rows: int
    rows: int
    columns: Columns


class Counted(NamedTuple):
    """The result of reading an attempt's files back.

    Attributes:
        files: The names of the files.
        partitions: The partitions, with the number of rows and the offsets in the files.
    """

    files: tuple[str, ...]
    partitions: tuple[LoadedPartition, ...]


DIRECTORY = re.compile(r"run=\d{8}T\d{6}Z-[0-9a-f]{12}")
"""The names of attempts' directories."""

Write = Callable[[str], Written]
"""Writes an attempt's files to the directory with this name."""
Count = Callable[[str], Counted]
"""Reads the files of a directory back."""


def new_directory(now: datetime) -> tuple[str, str]:
    """Return the unique name of a new directory, and its random token. Names sort by time."""
    token = secrets.token_hex(6)
    return f"run={now.astimezone(timezone.utc):%Y%m%dT%H%M%SZ}-{token}", token


def run_attempt(
    storage: Storage,
    history: History,
    manifest: Manifest,
    write: Write,
    count: Count,
    validate: Callable[[Manifest], None],
) -> Manifest:
    """Write, count and commit.

    Args:
        storage: The output.
        history: The history that the load was planned from.
        manifest: The plan, as a manifest without files and counts.
        write: See :data:`Write`.
        count: See :data:`Count`.
        validate: Raises if the counted manifest must not be committed.

    Returns:
        The committed manifest.

    Raises:
        ConflictError: In the meantime another load of these records, or another attempt at this load, was committed.
        StorageError: The storage can't be used for commits, or the files don't have the rows that were written.
        CommitUncertainError: It's unknown whether the load was committed.
    """
    try:
        # Check before writing, so that a load that can't be committed fails early.
        storage.check()
        history.then(manifest.numbered(history.number + 1))
        written = write(manifest.data)
        manifest = _counted(manifest, written, count(manifest.data), storage.uri)
        validate(manifest)
        storage.settle(manifest.paths)
    except BaseException:
        _remove(storage, manifest.data)
        raise
    try:
        return CommitLog(storage).commit(manifest, history).manifest
    except (ConflictError, SchemaError):
        _remove(storage, manifest.data)
        raise


def _counted(manifest: Manifest, written: Written, counted: Counted, uri: str) -> Manifest:
    # A rerun keeps the time of the load.
    created = manifest.created or datetime.now(timezone.utc).isoformat(timespec="seconds")
    manifest = replace(
        manifest,
        source_rows=written.source_rows,
        columns=written.columns,
        created=created,
        files=tuple(sorted(counted.files)),
        partitions=counted.partitions,
    )
    if manifest.rows != written.rows:
        raise StorageError(
            f"Spark wrote {written.rows} rows to {manifest.data} of {uri}, but its files have {manifest.rows}: "
            "the file system lists or moves files late, or twice. Nothing was committed: load again"
        )
    return manifest


def _remove(storage: Storage, data: str) -> None:
    # Ignore a failure: files without a commit aren't part of the output, and the caller's error matters more.
    with contextlib.suppress(Exception):
        storage.remove(data)
