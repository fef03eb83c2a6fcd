"""Partitions by topic id, as KIP-848 and KIP-932 assign them, and the result of a heartbeat that carries them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

TopicIdPartition = tuple[bytes, int]
"""A partition: the id of its topic and its index. The topic is named by its id because it can be deleted and created
again under the same name."""

TopicIdPartitions = frozenset[TopicIdPartition]


class HeartbeatResult(NamedTuple):
    """The result of a ConsumerGroupHeartbeat or ShareGroupHeartbeat.

    Attributes:
        member_id: The member.
        epoch: Its epoch from now on; -1 or -2 when it has left.
        assigned: Its assignment; None if the member has it already, which saves the bytes of most heartbeats.
    """

    member_id: str
    epoch: int
    assigned: TopicIdPartitions | None = None


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Return the partitions of each topic, topics and partitions in ascending order."""
    topics: dict[bytes, list[int]] = {}
    # The order makes the same assignment the same bytes in records and responses.
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return topics
