"""A consumer group in the offsets topic, in Kafka's own records: int16 record type or version, then the payload."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TypeVar

from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ClassicSide, ConsumerMember, MemberState, Place, Places
from aiokproto.codec.payloads.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from aiokproto.codec.payloads.consumer_group_current_member_assignment import TopicPartitions as Assigned
from aiokproto.codec.payloads.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from aiokproto.codec.payloads.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from aiokproto.codec.payloads.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from aiokproto.codec.payloads.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from aiokproto.codec.payloads.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from aiokproto.codec.schema import Payload

_INT16 = struct.Struct(">h")
_VERSION = 0
"""Version of all keys and values: they have only had one."""

KEYS: dict[int, type[Payload]] = {
    3: ConsumerGroupMetadataKey,
    5: ConsumerGroupMemberMetadataKey,
    6: ConsumerGroupTargetAssignmentMetadataKey,
    7: ConsumerGroupTargetAssignmentMemberKey,
    8: ConsumerGroupCurrentMemberAssignmentKey,
    16: ConsumerGroupRegularExpressionKey,
}
"""The keys by record type."""

_TYPES = {key: number for number, key in KEYS.items()}
_PATTERN_PREFIX = _INT16.pack(_TYPES[ConsumerGroupRegularExpressionKey])

V = TypeVar("V", bound=Payload)

Image = dict[bytes, bytes]
"""A group's records: what a reader of the topic knows of it."""


def changes(group: ConsumerGroup, written: Image, wall: int) -> list[tuple[bytes, bytes | None]]:
    """The records that bring what is written up to date, and ``written`` with them.

    Args:
        group: The group; those of its members are looked at that are in ``dirty``.
        written: What was written of it so far.
        wall: The time (ms).
    """
    current: dict[bytes, bytes | None] = dict(_of_group(group))
    for member_id in group.dirty:
        current.update(_of_member(group, member_id))
    patterns = dict(_of_patterns(group, written, wall))
    current.update({key: None for key in written if key.startswith(_PATTERN_PREFIX) and key not in patterns})
    current.update(patterns)
    fresh = [(key, value) for key, value in current.items() if written.get(key) != value]
    for key, value in fresh:
        if value is None:
            del written[key]
        else:
            written[key] = value
    return fresh


def restore(group: ConsumerGroup, image: Mapping[bytes, bytes], now: float) -> None:
    """Have a group become what its records say."""
    members: dict[str, ConsumerMember] = {}
    targets: dict[str, Places] = {}
    states: dict[str, ConsumerGroupCurrentMemberAssignmentValue] = {}
    for raw, value in image.items():
        key = decode_key(raw)
        if isinstance(key, ConsumerGroupMetadataKey):
            metadata = _decode(ConsumerGroupMetadataValue, value)
            group.epoch, group.metadata_hash = metadata.epoch, metadata.metadata_hash
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            group.assignment_epoch = _decode(ConsumerGroupTargetAssignmentMetadataValue, value).assignment_epoch
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            members[key.member_id] = _member(key.member_id, _decode(ConsumerGroupMemberMetadataValue, value))
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            target = _decode(ConsumerGroupTargetAssignmentMemberValue, value).topic_partitions
            targets[key.member_id] = frozenset((each.topic_id, index) for each in target for index in each.partitions)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            states[key.member_id] = _decode(ConsumerGroupCurrentMemberAssignmentValue, value)
    for member_id, member in members.items():
        state = states.get(member_id)
        if state is not None:
            member.epoch, member.previous_epoch = state.member_epoch, state.previous_member_epoch
            member.state = MemberState(state.state)
            member.assigned = _places(state.assigned_partitions, state.member_epoch)
            member.revoking = _places(state.partitions_pending_revocation, state.member_epoch)
    group.restore(members.values(), targets, now)


def group_of(key: bytes) -> str | None:
    """The group that a record is about; None if it is about something else than a consumer group."""
    read = decode_key(key)
    return getattr(read, "group_id", None)


def decode_key(key: bytes) -> Payload | None:
    """What a record is about; None if it is about something else than a consumer group."""
    found = KEYS.get(_INT16.unpack_from(key)[0])
    return found.decode(key[2:], _VERSION) if found is not None else None


def _key(key: Payload) -> bytes:
    return _INT16.pack(_TYPES[type(key)]) + key.encode(_VERSION)


def _value(value: Payload) -> bytes:
    return _INT16.pack(_VERSION) + value.encode(_VERSION)


def _decode(kind: type[V], value: bytes) -> V:
    return kind.decode(value[2:], _INT16.unpack_from(value)[0])


def _of_group(group: ConsumerGroup) -> Iterable[tuple[bytes, bytes]]:
    yield (
        _key(ConsumerGroupMetadataKey(group_id=group.group_id)),
        _value(ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)),
    )
    yield (
        _key(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id)),
        _value(ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)),
    )


def _of_member(group: ConsumerGroup, member_id: str) -> Iterable[tuple[bytes, bytes | None]]:
    member = group.members.get(member_id)
    group_id = group.group_id
    yield (
        _key(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
        _metadata(member) if member else None,
    )
    yield (
        _key(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        _target(group.targets[member_id]) if member else None,
    )
    yield (
        _key(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        _assignment(member) if member else None,
    )


def _of_patterns(group: ConsumerGroup, written: Image, wall: int) -> Iterable[tuple[bytes, bytes]]:
    for pattern, names in group.subscriptions.matches.items():
        key = _key(ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=pattern))
        topics = sorted(names)
        before = written.get(key)
        if before is not None and _decode(ConsumerGroupRegularExpressionValue, before).topics == topics:
            yield key, before
        else:
            value = ConsumerGroupRegularExpressionValue(topics=topics, version=group.epoch, timestamp=wall)
            yield key, _value(value)


def _metadata(member: ConsumerMember) -> bytes:
    side = None
    if member.classic is not None:
        side = ClassicMemberMetadata(
            session_timeout_ms=int(member.classic.session_timeout * 1000),
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.classic.protocols],
        )
    return _value(
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex or None,
            rebalance_timeout_ms=int(member.rebalance_timeout * 1000),
            server_assignor=member.assignor,
            classic_member_metadata=side,
        )
    )


def _member(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    side = value.classic_member_metadata
    classic = None
    if side is not None and side.supported_protocols:
        protocols = tuple((each.name, bytes(each.metadata)) for each in side.supported_protocols)
        classic = ClassicSide(side.session_timeout_ms / 1000, protocols)
    return ConsumerMember(
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        max(value.rebalance_timeout_ms, 0) / 1000,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.server_assignor,
        classic,
    )


def _target(places: Places) -> bytes:
    return _value(
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic(places).items()
            ]
        )
    )


def _assignment(member: ConsumerMember) -> bytes:
    return _value(
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_assigned(member.assigned),
            partitions_pending_revocation=_assigned(member.revoking),
        )
    )


def _assigned(places: Mapping[Place, int]) -> list[Assigned]:
    return [
        Assigned(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[places[topic_id, index] for index in indexes],
        )
        for topic_id, indexes in by_topic(places).items()
    ]


def _places(topics: Iterable[Assigned], epoch: int) -> dict[Place, int]:
    """What a member has and since when; from an older Kafka, which did not note that, since the epoch it is in."""
    found: dict[Place, int] = {}
    for each in topics:
        epochs = each.assignment_epochs or [epoch] * len(each.partitions)
        found.update({(each.topic_id, index): since for index, since in zip(each.partitions, epochs, strict=False)})
    return found


def by_topic(places: Iterable[Place]) -> dict[bytes, list[int]]:
    """Partitions by topic id, in order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        topics.setdefault(topic_id, []).append(index)
    return topics
