"""Partitions, as the groups have them whose coordinator assigns; and how a member hears which are its."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

TopicIdPartition = tuple[bytes, int]
"""A partition: its topic's id and its index."""

TopicIdPartitions = frozenset[TopicIdPartition]


class HeartbeatResult(NamedTuple):
    """The answer to a heartbeat: ``assigned`` is None if the member knows it already."""

    member_id: str
    epoch: int
    assigned: TopicIdPartitions | None = None


def by_topic(places: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Partitions by topic id, in order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        topics.setdefault(topic_id, []).append(index)
    return topics
