"""Which committed offsets have grown too old (KIP-211)."""

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
    """The time by the group's clock (s) and by the wall clock (ms), and how long offsets are kept (s)."""

    now: float
    wall: int
    retention: float


def expired(
    group: ClassicGroup | ConsumerGroup | StreamsGroup, offsets: Mapping[TopicPartition, OffsetAndMetadata], age: Age
) -> list[TopicPartition]:
    """The offsets to forget.

    An offset lives for the retention, counted from when it was committed; in a classic group that had members, from
    when the last of them left. While there are members only topics that none of them reads are looked at, and in the
    middle of a rebalance none. An expiry that came with the commit goes before all that.
    """
    if isinstance(group, ClassicGroup) and group.state not in (ClassicGroupState.EMPTY, ClassicGroupState.STABLE):
        return []
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and group.empty_since is not None:
        late = age.now - group.empty_since >= age.retention
        return [where for where, what in offsets.items() if (late if what.expires < 0 else what.expires <= age.wall)]
    reads = _reads(group)
    oldest = age.wall - age.retention * 1000
    return [
        where
        for where, what in offsets.items()
        if (what.timestamp <= oldest if what.expires < 0 else what.expires <= age.wall) and not reads(where[0])
    ]


def _reads(group: ClassicGroup | ConsumerGroup | StreamsGroup) -> Callable[[str], bool]:
    """Whether the group has a member that reads a topic; of what others than consumers do nothing is known."""
    if isinstance(group, (ConsumerGroup, StreamsGroup)):
        return group.subscribed
    if group.members and group.protocol_type != CONSUMER:
        return lambda topic: True
    topics = subscribed_topics(group)
    return lambda topic: topic in topics
