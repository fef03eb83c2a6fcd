"""Kafka's checkpoint files in a data directory: an offset for each of some partitions.

Text: a version, a count, then "topic partition offset" lines.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

RECOVERY_POINT = "recovery-point-offset-checkpoint"
"""Up to where each log was on disk for certain."""

LOG_START = "log-start-offset-checkpoint"
"""Where logs begin that do not begin with their first segment."""

CLEANED = "cleaner-offset-checkpoint"
"""Up to where compacted logs were compacted."""

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""This file is there while no broker runs, and the last one closed its logs."""

_VERSION = "0"

Partition = tuple[str, int]


def write(path: Path, offsets: Mapping[Partition, int]) -> None:
    """Write a checkpoint. Atomically: a crash leaves the old or the new."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as file:
        file.write("\n".join([_VERSION, str(len(lines)), *lines, ""]))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read(path: Path) -> dict[Partition, int]:
    """Read a checkpoint. One that is missing or damaged counts as none: then more has to be checked."""
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
    """Say that the logs were closed in good order."""
    (root / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(root: Path) -> bool:
    """Whether the logs were closed in good order; asked once, for from now on they are open."""
    path = root / CLEAN_SHUTDOWN
    closed = path.exists()
    path.unlink(missing_ok=True)
    return closed
