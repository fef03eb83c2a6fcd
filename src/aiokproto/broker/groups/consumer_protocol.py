"""The embedded consumer protocol: subscriptions and assignments, inside the bytes of JoinGroup and SyncGroup.

Members of classic groups exchange them through the coordinator, which needs them only to expire offsets and to migrate
groups (KIP-848). The format is an int16 version, then the payload. Later versions append fields, so a version newer
than the highest known one is decoded as the highest known one, and the rest is ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.codec.payloads.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, DecodeError

CONSUMER = "consumer"
"""The protocol type of groups that use it. Kafka Connect uses "connect", with other payloads."""

_INT16 = struct.Struct(">h")


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription.

    Raises:
        BrokerError: INCONSISTENT_GROUP_PROTOCOL if it is malformed.
    """
    try:
        # The client that wrote it may be newer than this broker. decode_from() ignores additional fields at the end.
        version = min(version_of(metadata), ConsumerProtocolSubscription.versions.highest)
        return ConsumerProtocolSubscription.decode_from(metadata, 2, version)[0]
    except (DecodeError, struct.error) as error:
        raise _malformed("subscription", error) from None


def subscribed_topics(group: ClassicGroup) -> set[str]:
    """Return the topics that members of a classic group subscribe to. Malformed subscriptions are ignored."""
    topics: set[str] = set()
    for member in group.members.values():
        # All its assignors count: the one in use changes with the members, but the subscription doesn't.
        for _, metadata in member.protocols:
            try:
                topics.update(decode_subscription(metadata).topics)
            except BrokerError:
                continue
    return topics


def decode_assignment(data: bytes) -> set[tuple[str, int]]:
    """Decode an assignment to topics and partitions. Empty bytes are an empty assignment.

    Raises:
        BrokerError: INCONSISTENT_GROUP_PROTOCOL if it is malformed.
    """
    if not data:
        return set()
    try:
        version = min(version_of(data), ConsumerProtocolAssignment.versions.highest)
        read = ConsumerProtocolAssignment.decode_from(data, 2, version)[0]
    except (DecodeError, struct.error) as error:
        raise _malformed("assignment", error) from None
    return flatten(read.assigned_partitions)


def encode_assignment(partitions: Iterable[tuple[str, int]], version: int) -> bytes:
    """Encode an assignment. ``version`` should be that of the member's subscription."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    known = min(version, ConsumerProtocolAssignment.versions.highest)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    )
    return _INT16.pack(known) + assignment.encode(known)


def flatten(topics: Iterable[TopicPartition]) -> set[tuple[str, int]]:
    """Return (topic, partition) pairs."""
    return {(each.topic, index) for each in topics for index in each.partitions}


def version_of(data: bytes) -> int:
    """Return the version of an encoded subscription or assignment."""
    version: int = _INT16.unpack_from(data)[0]
    return version


def _malformed(what: str, error: Exception) -> BrokerError:
    return BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail=f"the member's {what} is malformed: {error}")
