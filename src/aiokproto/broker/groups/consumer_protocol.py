"""What members of classic consumer groups tell each other through the coordinator: subscriptions and assignments.

int16 version, then the payload. A version from the future begins like the last known one, with more after it.
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
"""The protocol type of the groups that do so."""

_INT16 = struct.Struct(">h")


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription.

    Raises:
        BrokerError: INCONSISTENT_GROUP_PROTOCOL: it is none.
    """
    try:
        version = min(version_of(metadata), ConsumerProtocolSubscription.versions.highest)
        return ConsumerProtocolSubscription.decode_from(metadata, 2, version)[0]
    except (DecodeError, struct.error) as error:
        raise _malformed("subscription", error) from None


def subscribed_topics(group: ClassicGroup) -> set[str]:
    """The topics that a classic group's members read, as far as they tell."""
    topics: set[str] = set()
    for member in group.members.values():
        for _, metadata in member.protocols:
            try:
                topics.update(decode_subscription(metadata).topics)
            except BrokerError:
                continue
    return topics


def decode_assignment(data: bytes) -> set[tuple[str, int]]:
    """The topics and partitions of an assignment; none of an empty one.

    Raises:
        BrokerError: INCONSISTENT_GROUP_PROTOCOL: it is none.
    """
    if not data:
        return set()
    try:
        version = min(version_of(data), ConsumerProtocolAssignment.versions.highest)
        read = ConsumerProtocolAssignment.decode_from(data, 2, version)[0]
    except (DecodeError, struct.error) as error:
        raise _malformed("assignment", error) from None
    return flatten(read.assigned_partitions)


def encode_assignment(places: Iterable[tuple[str, int]], version: int) -> bytes:
    """An assignment, in the version that the member's subscription has."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        by_topic.setdefault(topic, []).append(index)
    known = min(version, ConsumerProtocolAssignment.versions.highest)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    )
    return _INT16.pack(known) + assignment.encode(known)


def flatten(topics: Iterable[TopicPartition]) -> set[tuple[str, int]]:
    """Topics and partitions in pairs."""
    return {(each.topic, index) for each in topics for index in each.partitions}


def version_of(data: bytes) -> int:
    """The version of a subscription or an assignment."""
    version: int = _INT16.unpack_from(data)[0]
    return version


def _malformed(what: str, error: Exception) -> BrokerError:
    return BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail=f"the {what} cannot be read: {error}")
