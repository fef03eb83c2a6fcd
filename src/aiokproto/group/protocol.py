"""The consumer protocol: subscriptions and assignments, as bytes that the coordinator passes on unread."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import groupby

from aiokproto.codec.payloads.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from aiokproto.codec.payloads.consumer_protocol import (
    TopicPartition as TopicPartitions,
)
from aiokproto.errors import DecodeError
from aiokproto.group.assignors import Subscription
from aiokproto.types import TopicPartition

PROTOCOL_TYPE = "consumer"

_VERSION = struct.Struct(">h")


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None,
    owned: Iterable[TopicPartition],
    generation: int,
    rack_id: str | None,
) -> bytes:
    """Encode a member's subscription, for JoinGroup."""
    version = ConsumerProtocolSubscription.versions.highest
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            TopicPartitions(topic=topic, partitions=[number for _, number in group])
            for topic, group in groupby(sorted(owned), key=lambda partition: partition.topic)
        ],
        generation_id=generation,
        rack_id=rack_id,
    )
    return _VERSION.pack(version) + message.encode(version)


def decode_subscription(data: bytes, group_instance_id: str | None) -> Subscription:
    """Decode the subscription of another member. Newer versions than ours only append fields, which are skipped.

    Raises:
        DecodeError: The bytes are not a subscription.
    """
    version = _version(data, ConsumerProtocolSubscription.versions.highest)
    message, _ = ConsumerProtocolSubscription.decode_from(data, _VERSION.size, version)
    return Subscription(
        topics=dict.fromkeys(message.topics).keys(),
        user_data=message.user_data,
        owned_partitions=_flat(message.owned_partitions),
        generation=message.generation_id,
        rack_id=message.rack_id,
        group_instance_id=group_instance_id,
    )


def encode_assignment(assigned: Iterable[TopicPartition]) -> bytes:
    """Encode a member's assignment, for SyncGroup: topics in the order in which they occur."""
    version = ConsumerProtocolAssignment.versions.highest
    topics: dict[str, list[int]] = {}
    for topic, number in assigned:
        topics.setdefault(topic, []).append(number)
    by_topic = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
    message = ConsumerProtocolAssignment(assigned_partitions=by_topic, user_data=None)
    return _VERSION.pack(version) + message.encode(version)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode the assignment that the leader has computed for this member. Empty bytes stand for no partitions.

    Raises:
        DecodeError: The bytes are not an assignment.
    """
    if not data:
        return []
    version = _version(data, ConsumerProtocolAssignment.versions.highest)
    message, _ = ConsumerProtocolAssignment.decode_from(data, _VERSION.size, version)
    return _flat(message.assigned_partitions)


def _version(data: bytes, highest: int) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError(f"consumer protocol: {len(data)} bytes are too short for a version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"consumer protocol: version {version}")
    return min(int(version), highest)


def _flat(topics: Sequence[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(entry.topic, number) for entry in topics for number in entry.partitions]
