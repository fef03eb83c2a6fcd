"""Partitions by topic id, as KIP-848 and KIP-932 assign them, and the result of a heartbeat that carries them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

TopicIdPartition = tuple[bytes, int]
"""A partition: the id of its topic and its index. The topic is identified by its id because it can be deleted and
recreated under the same name."""

TopicIdPartitions = frozenset[TopicIdPartition]


class HeartbeatResult(NamedTuple):
    """The result of a ConsumerGroupHeartbeat or ShareGroupHeartbeat.

    Attributes:
        member_id: The member.
        epoch: Its new epoch; -1 or -2 if it has left.
        assigned: Its assignment; None if it hasn't changed, so most heartbeats don't repeat it.
    """

    member_id: str
    epoch: int
    assigned: TopicIdPartitions | None = None


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Group partitions by topic id. Topics and partitions are in ascending order."""
    topics: dict[bytes, list[int]] = {}
    # Sorted, so that equal assignments encode to the same bytes in records and responses.
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return topics
