"""Kafka's checkpoint files in the data directory: one offset per partition (OffsetCheckpointFile).

An entry is "topic partition offset" (:mod:`aiokproto.broker.log.checkpoint_file`). Partitions whose offset is 0 have no
entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aiokproto.broker.log import checkpoint_file
from aiokproto.broker.log.private_files import write_private

RECOVERY_POINT = "recovery-point-offset-checkpoint"
"""Below this offset a log was flushed."""

LOG_START = "log-start-offset-checkpoint"
"""Start offsets that are inside a log's first segment."""

CLEANED = "cleaner-offset-checkpoint"
"""Below this offset a log was compacted."""

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""Marks a clean shutdown. A broker removes it at its start, so that it is missing after a crash."""

Partition = tuple[str, int]


def write(path: Path, offsets: Mapping[Partition, int]) -> None:
    """Write a checkpoint file."""
    checkpoint_file.write(path, [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read(path: Path) -> dict[Partition, int]:
    """Read a checkpoint file. A missing or damaged one is empty, which only means that more segments are recovered."""
    offsets: dict[Partition, int] = {}
    try:
        for entry in checkpoint_file.read(path) or []:
            topic, partition, offset = entry.split(" ")
            offsets[topic, int(partition)] = int(offset)
    except ValueError:
        return {}
    return offsets


def mark_clean_shutdown(root: Path) -> None:
    """Mark a clean shutdown."""
    # What Kafka's CleanShutdownFileHandler writes (KIP-966). There is no broker epoch here: -1.
    write_private(root / CLEAN_SHUTDOWN, '{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(root: Path) -> bool:
    """Return whether the last shutdown was clean, and remove the mark: the logs are open from now on."""
    path = root / CLEAN_SHUTDOWN
    closed = path.exists()
    # At once, not at the next change: a crash from here on must not look like a clean shutdown.
    path.unlink(missing_ok=True)
    return closed
