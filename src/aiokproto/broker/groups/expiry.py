"""Expiration of committed offsets (KIP-211)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer_protocol import CONSUMER, subscribed_topics
from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.groups.streams.group import StreamsGroup

TopicPartition = tuple[str, int]


class Age(NamedTuple):
    """The time on the group's clock (s) and on the wall clock (ms), and ``offsets.retention.minutes`` (s)."""

    now: float
    wall: int
    retention: float


def expired(
    group: ClassicGroup | ConsumerGroup | StreamsGroup, offsets: Mapping[TopicPartition, OffsetAndMetadata], age: Age
) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired.

    The retention starts with the commit; in a classic group that has had members, when the last member left. While a
    group has members, only offsets of topics that no member subscribes to expire; during a classic rebalance none do,
    since the subscriptions are incomplete. An expiry that the commit itself set (OffsetCommit v2-4) replaces the
    retention.
    """
    if isinstance(group, ClassicGroup) and group.state not in (ClassicGroupState.EMPTY, ClassicGroupState.STABLE):
        return []
    # A group that has had members: however old its offsets are, they are kept for the retention after it was last used.
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and group.empty_since is not None:
        late = age.now - group.empty_since >= age.retention
        return [where for where, what in offsets.items() if (late if what.expires < 0 else what.expires <= age.wall)]
    # A group without members reads nothing, so that offsets without subscription expire by their commit time.
    reads = _reads(group)
    oldest = age.wall - age.retention * 1000
    return [
        where
        for where, what in offsets.items()
        if (what.timestamp <= oldest if what.expires < 0 else what.expires <= age.wall) and not reads(where[0])
    ]


def _reads(group: ClassicGroup | ConsumerGroup | StreamsGroup) -> Callable[[str], bool]:
    """Return whether a member subscribes to a topic, as a function of the topic.

    Subscriptions of other protocol types than "consumer" cannot be decoded: with members, all topics count as read.
    """
    if isinstance(group, (ConsumerGroup, StreamsGroup)):
        return group.subscribed
    if group.members and group.protocol_type != CONSUMER:
        return lambda topic: True
    topics = subscribed_topics(group)
    return lambda topic: topic in topics
