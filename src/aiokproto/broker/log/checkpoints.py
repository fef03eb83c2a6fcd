"""Kafka's checkpoint files: an offset for each partition, in the data directory, and the text format that all of them
use.

The format (CheckpointFile) is a version, the number of entries, and one entry per line. Without the number, a file that
was cut off at the end of a line would look valid. In the files of the data directory (OffsetCheckpointFile) an entry is
"topic partition offset". Partitions with offset 0 don't have an entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiokproto.broker.log.private_files import private, write_private

RECOVERY_POINT = "recovery-point-offset-checkpoint"
"""The file with each log's recovery point. Everything before it has been flushed."""

LOG_START = "log-start-offset-checkpoint"
"""The file with the start offsets of logs that start inside their first segment."""

CLEANED = "cleaner-offset-checkpoint"
"""The file with the offset that compaction has reached in each log."""

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""The file that marks a clean shutdown. A broker removes it when it starts, so it is missing after a crash."""

Partition = tuple[str, int]

_VERSION = "0"


def write(path: Path, offsets: Mapping[Partition, int]) -> None:
    """Write a checkpoint file."""
    write_entries(path, [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read(path: Path) -> dict[Partition, int]:
    """Read a checkpoint file. A missing or damaged file counts as empty, so more segments are recovered."""
    offsets: dict[Partition, int] = {}
    try:
        for entry in read_entries(path) or []:
            topic, partition, offset = entry.split(" ")
            offsets[topic, int(partition)] = int(offset)
    except ValueError:
        return {}
    return offsets


def mark_clean_shutdown(root: Path) -> None:
    """Mark a clean shutdown."""
    # Same content as from Kafka's CleanShutdownFileHandler (KIP-966). This broker doesn't have a broker epoch, hence
    # -1.
    write_private(root / CLEAN_SHUTDOWN, '{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(root: Path) -> bool:
    """Return whether the last shutdown was clean, and remove the mark, since the logs are now open."""
    path = root / CLEAN_SHUTDOWN
    clean = path.exists()
    # Remove the mark now, not at the next change: a crash after this point must not look like a clean shutdown.
    path.unlink(missing_ok=True)
    return clean


def write_entries(path: Path, entries: Sequence[str]) -> None:
    """Replace the file atomically: a crash leaves either the old or the new file, never part of one."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", opener=private) as file:
        file.write("\n".join([_VERSION, str(len(entries)), *entries, ""]))
        file.flush()
        # Flush before the rename. Otherwise a file system may store the new name before the content, and a power
        # failure would leave an empty file.
        os.fsync(file.fileno())
    temporary.replace(path)


def read_entries(path: Path) -> list[str] | None:
    """Read the entries; None if the file is missing or damaged."""
    try:
        version, count, *entries = path.read_text().splitlines()
        return entries if version == _VERSION and len(entries) == int(count) else None
    except (OSError, ValueError):
        return None
