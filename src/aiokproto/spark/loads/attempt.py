"""One attempt at a load, from its plan to its commit. The order of the steps is why nothing is lost or doubled.

::

    PLANNED ──write──→ WRITTEN ──count──→ COUNTED ──create the commit──→ COMMITTED ──→ checkpoint, now and then
       │                  │                  │              │
       └────── fails: the files are removed ─┘              ├─ others hold the same: refused; the files are removed
                                                            └─ nobody can tell: UNCERTAIN; the files stay

========== ============================================ ==============================================================
state      what there is                                a driver killed here leaves
========== ============================================ ==============================================================
PLANNED    a range of offsets for each partition        nothing
WRITTEN    files in a directory that no one else has    files that do not count; the next load reads the same offsets
COUNTED    the same; they were read back                the same
COMMITTED  the commit names the directory               a load that counts; the next one goes on behind it
UNCERTAIN  files, and a commit or not                   one or the other; the next load sees which
========== ============================================ ==============================================================

Once the commit was tried, files are removed on one condition only: its number belongs to somebody else for certain.
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
from aiokproto.spark.loads.history import ConflictError, History
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest
from aiokproto.spark.loads.storage import Storage, StorageError


class Written(NamedTuple):
    """What was handed to the files.

    Attributes:
        source_rows: Records read, before any transformation.
        rows: Rows written.
        columns: Their columns.
    """

    source_rows: int
    rows: int
    columns: Columns


class Counted(NamedTuple):
    """What is in the files.

    Attributes:
        files: Their names.
        partitions: What they have of each partition.
    """

    files: tuple[str, ...]
    partitions: tuple[LoadedPartition, ...]


DIRECTORY = re.compile(r"run=\d{8}T\d{6}Z-[0-9a-f]{12}")
"""What the directories of attempts are called."""

Write = Callable[[str], Written]
"""Writes the files of an attempt into a directory of this name."""
Count = Callable[[str], Counted]
"""Reads the files in a directory back."""


def new_directory(now: datetime) -> tuple[str, str]:
    """A directory that nobody else will ever have, and the token that makes it so; by name in order of time."""
    token = secrets.token_hex(6)
    return f"run={now.astimezone(timezone.utc):%Y%m%dT%H%M%SZ}-{token}", token


def carry_out(
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
        history: What it was planned from.
        manifest: The plan: all but what is counted.
        write: See :data:`Write`.
        count: See :data:`Count`.
        validate: Raises if what was counted must not be committed.

    Returns:
        The manifest as it was committed.

    Raises:
        ConflictError: Others have committed the same records, or another attempt at the same load, meanwhile.
        StorageError: The storage cannot be used for commits, or the files do not have the rows that were written.
        CommitUncertainError: It may have been committed.
    """
    try:
        # What cannot be committed is not even written.
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
    except ConflictError:
        _remove(storage, manifest.data)
        raise


def _counted(manifest: Manifest, written: Written, counted: Counted, uri: str) -> Manifest:
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
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
            f"{written.rows} rows were written into {manifest.data} of {uri}, and {manifest.rows} are found there: "
            "the file system lists or moves files late, or twice. Nothing was committed"
        )
    return manifest


def _remove(storage: Storage, data: str) -> None:
    # They do not count anyway: what went wrong before matters more than failing to tidy up.
    with contextlib.suppress(Exception):
        storage.remove(data)
