"""Removal of directories that aren't part of the output."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.attempt import DIRECTORY
from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.manifest import ManifestError
from aiokproto.spark.loads.opening import open_storage
from aiokproto.spark.loads.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("aiokproto.spark")

DEFAULT_AGE = timedelta(days=7)


def vacuum(
    out: str | Path, *, older_than: timedelta = DEFAULT_AGE, dry_run: bool = False, spark: SparkSession | None = None
) -> list[Folder]:
    """Remove the directories of attempts that failed, were killed, or were replaced.

    A load that is still running, or whose commit is uncertain, has such a directory, too. So ``older_than`` must be
    longer than any load. Queries that still read replaced files fail.

    Args:
        out: The output.
        older_than: The minimum time since the last write to a directory.
        dry_run: Only return the directories that would be removed.
        spark: The session; only outputs on HDFS need it.

    Returns:
        The directories, with their sizes.

    Raises:
        ConfigurationError: ``older_than`` is negative, or not a timedelta.
        ManifestError: The manifests can't be read, or there are none. If so, nothing is removed.
    """
    if not isinstance(older_than, timedelta):
        raise ConfigurationError(f"older_than={older_than!r}: must be a timedelta, such as timedelta(days=7)")
    if older_than < timedelta(0):
        raise ConfigurationError(f"older_than={older_than}: must not be negative")
    output = open_storage(out, spark)
    now = datetime.now(timezone.utc)
    # List the directories before reading the commits: one that is committed in between is then seen as committed.
    folders = [folder for folder in output.folders() if DIRECTORY.fullmatch(folder.name)]
    commits = CommitLog(output)
    manifests = list(commits.manifests())
    last = commits.latest().number
    if not manifests or len(manifests) != last:
        # It isn't an output of loads, or the storage doesn't show all of its manifests.
        raise ManifestError(f"{output.uri} {_lacking(len(manifests), last, folders)}")
    needed = set({manifest.run_id: manifest.data for manifest in manifests}.values())
    orphans = [
        folder
        for folder in folders
        if folder.name not in needed and folder.modified is not None and now - folder.modified >= older_than
    ]
    for folder in orphans:
        logger.info("%s %s of %s", "would remove" if dry_run else "removing", folder.name, output.uri)
        if not dry_run:
            output.remove(folder.name)
    return orphans


def _lacking(manifests: int, last: int, folders: Sequence[Folder]) -> str:
    if last:
        return f"has {manifests} manifests up to number {last}"
    if not folders:
        return "has no manifest: nothing was loaded"
    # A user who lost the manifests must not lose the rows, too, so refuse.
    names = ", ".join(folder.name for folder in folders[:3]) + (", …" if len(folders) > 3 else "")
    return f"has no manifest, but {names}: if no load was ever committed, remove that by hand"
