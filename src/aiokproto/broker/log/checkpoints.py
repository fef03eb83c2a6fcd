"""Kafka's checkpoint files: an offset of each partition, in the data directory, and the text format of all of them.

The format (CheckpointFile) is a version, the number of entries, and one entry per line. The number detects a file that
was cut off at the end of a line, which would otherwise be read as a valid shorter file. In the files of the data
directory (OffsetCheckpointFile) an entry is "topic partition offset". Partitions whose offset is 0 have no entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiokproto.broker.log.private_files import private, write_private

RECOVERY_POINT = "recovery-point-offset-checkpoint"
"""The file with the offset below which each log was flushed."""

LOG_START = "log-start-offset-checkpoint"
"""The file with start offsets that are inside a log's first segment."""

CLEANED = "cleaner-offset-checkpoint"
"""The file with the offset below which each log was compacted."""

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""The file that marks a clean shutdown. A broker removes it when it starts, so it is missing after a crash."""

Partition = tuple[str, int]

_VERSION = "0"


def write(path: Path, offsets: Mapping[Partition, int]) -> None:
    """Write a checkpoint file."""
    write_entries(path, [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read(path: Path) -> dict[Partition, int]:
    """Read a checkpoint file. A missing or damaged one counts as empty, which only means that more segments are
    recovered."""
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
    # Kafka's CleanShutdownFileHandler writes the same (KIP-966). The broker epoch is -1 because this broker has none.
    write_private(root / CLEAN_SHUTDOWN, '{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(root: Path) -> bool:
    """Return whether the last shutdown was clean, and remove the mark: the logs are open from now on."""
    path = root / CLEAN_SHUTDOWN
    clean = path.exists()
    # The mark is removed at once, not at the next change: a crash from here on must not look like a clean shutdown.
    path.unlink(missing_ok=True)
    return clean


def write_entries(path: Path, entries: Sequence[str]) -> None:
    """Replace the file atomically: a crash leaves the old one or the new one, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", opener=private) as file:
        file.write("\n".join([_VERSION, str(len(entries)), *entries, ""]))
        file.flush()
        # The file is flushed before the rename. Otherwise a file system may store the new name before the content,
        # which leaves an empty file after a power failure.
        os.fsync(file.fileno())
    temporary.replace(path)


def read_entries(path: Path) -> list[str] | None:
    """Read the entries; None if the file is missing or damaged."""
    try:
        version, count, *entries = path.read_text().splitlines()
        return entries if version == _VERSION and len(entries) == int(count) else None
    except (OSError, ValueError):
        return None
