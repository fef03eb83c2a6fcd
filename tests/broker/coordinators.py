"""Reads the records of coordinators, without an event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from aiokproto.broker.metadata.internal_topics import Take, internal_topic_records
from aiokproto.broker.metadata.topics import Partition


class Coordinator(Protocol):
    def reading(self) -> Iterator[tuple[Partition, Take]]: ...


def read_stored(coordinator: Coordinator) -> None:
    """Read the records that ``ClusterRuntime.read`` reads in steps."""
    for partition, take in coordinator.reading():
        for offset, record in internal_topic_records(partition):
            take(offset, record)
