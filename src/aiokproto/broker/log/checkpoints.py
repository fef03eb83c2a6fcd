"""Kafka's checkpoint files in the data directory: one offset per partition.

Text: a version, a count, then lines of "topic partition offset". Partitions whose offset is 0 have no line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

RECOVERY_POINT = "recovery-point-offset-checkpoint"
"""Below this offset a log was flushed."""

LOG_START = "log-start-offset-checkpoint"
"""Start offsets that are inside a log's first segment."""

CLEANED = "cleaner-offset-checkpoint"
"""Below this offset a log was compacted."""

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""Marks a clean shutdown. A broker removes it at its start, so that it is missing after a crash."""

_VERSION = "0"

Partition = tuple[str, int]


def write(path: Path, offsets: Mapping[Partition, int]) -> None:
    """Write a checkpoint file atomically: a crash leaves the old one or the new one."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as file:
        file.write("\n".join([_VERSION, str(len(lines)), *lines, ""]))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read(path: Path) -> dict[Partition, int]:
    """Read a checkpoint file. A missing or damaged one is empty, which only means that more segments are recovered."""
    try:
        version, count, *lines = path.read_text().splitlines()
        offsets: dict[Partition, int] = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        return offsets if version == _VERSION and len(offsets) == int(count) else {}
    except (OSError, ValueError):
        return {}


def mark_clean_shutdown(root: Path) -> None:
    """Mark a clean shutdown."""
    (root / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(root: Path) -> bool:
    """Return whether the last shutdown was clean, and remove the mark: the logs are open from now on."""
    path = root / CLEAN_SHUTDOWN
    closed = path.exists()
    path.unlink(missing_ok=True)
    return closed
