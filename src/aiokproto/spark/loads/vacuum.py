"""Removing what no load needs any more."""

from __future__ import annotations

import logging
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

OLD = timedelta(days=7)


def vacuum(
    out: str | Path, *, older_than: timedelta = OLD, dry_run: bool = False, spark: SparkSession | None = None
) -> list[Folder]:
    """Remove directories of attempts that do not count: those that failed, were killed, or were replaced since.

    A load that is still at work, or whose commit is uncertain, has such a directory, too: hence ``older_than``, which
    must be longer than any load takes. Queries that still read replaced files fail.

    Args:
        out: The output.
        older_than: The least time since a directory was written to. Longer than any load takes.
        dry_run: Whether to say only what would be removed.
        spark: The session, needed on HDFS only.

    Returns:
        The directories, with their sizes.

    Raises:
        ConfigurationError: ``older_than`` is negative.
        ManifestError: The manifests cannot be read, or there is none; nothing is removed then.
    """
    if not isinstance(older_than, timedelta):
        raise ConfigurationError(f"older_than={older_than!r}: it is a timedelta, such as timedelta(days=7)")
    if older_than < timedelta(0):
        raise ConfigurationError(f"older_than={older_than}: it cannot be negative")
    output = open_storage(out, spark)
    limit = datetime.now(timezone.utc) - older_than
    # Before the commits: what is committed in between was not here yet, or is seen to count.
    folders = [folder for folder in output.folders() if DIRECTORY.fullmatch(folder.name)]
    commits = CommitLog(output)
    manifests = list(commits.manifests())
    last = commits.latest().number
    if not manifests or len(manifests) != last:
        # Not an output of loads, or one whose manifests are not all visible.
        found = f"has {len(manifests)} manifests up to number {last}" if last else "has no manifest: nothing was loaded"
        raise ManifestError(f"{output.uri} {found}")
    needed = set({manifest.run_id: manifest.data for manifest in manifests}.values())
    orphans = [
        folder
        for folder in folders
        if folder.name not in needed and folder.modified is not None and folder.modified <= limit
    ]
    for folder in orphans:
        logger.info("%s %s of %s", "would remove" if dry_run else "removing", folder.name, output.uri)
        if not dry_run:
            output.remove(folder.name)
    return orphans
