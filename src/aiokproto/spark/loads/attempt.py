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
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.history import ConflictError, History
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest
from aiokproto.spark.loads.storage import Storage

Write = Callable[[str], int]
"""Writes the files of an attempt into a directory of this name; returns how many records it has read for that."""
Count = Callable[[str], tuple[LoadedPartition, ...]]
"""Reads the files back, and says what of each partition is in them."""


def new_directory(now: datetime) -> tuple[str, str]:
    """A directory that nobody else will ever have, and the token that makes it so; by name in order of time."""
    token = secrets.token_hex(6)
    return f"run={now.astimezone(timezone.utc):%Y%m%dT%H%M%SZ}-{token}", token


def carry_out(
    storage: Storage, history: History, manifest: Manifest, write: Write, count: Count, fits: Callable[[Manifest], None]
) -> Manifest:
    """Write, count and commit.

    Args:
        storage: The output.
        history: What it was planned from.
        manifest: The plan: all but what is counted.
        write: See :data:`Write`.
        count: See :data:`Count`.
        fits: Raises if what was counted must not be committed.

    Returns:
        The manifest as it was committed.

    Raises:
        ConflictError: Others have committed the same records, or another attempt at the same load, meanwhile.
        CommitUncertainError: It may have been committed.
    """
    try:
        # What cannot be committed is not even written.
        history.then(manifest.numbered(history.number + 1))
        source_rows = write(manifest.data)
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        counted = count(manifest.data)
        manifest = replace(manifest, source_rows=source_rows, created=created, partitions=counted)
        fits(manifest)
    except BaseException:
        _remove(storage, manifest.data)
        raise
    try:
        return CommitLog(storage).commit(manifest, history).manifest
    except ConflictError:
        _remove(storage, manifest.data)
        raise


def _remove(storage: Storage, data: str) -> None:
    # They do not count anyway: what went wrong before matters more than failing to tidy up.
    with contextlib.suppress(Exception):
        storage.remove(data)
