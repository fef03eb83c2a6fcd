"""The records of a consumer group in the offsets topic, in Kafka's format: see :mod:`aiokproto.broker.groups.image`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions, by_topic
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ClassicProtocolMetadata, ConsumerMember
from aiokproto.broker.groups.image import Image, Keys, Record, decode_value, encode_value, update, with_epochs
from aiokproto.broker.groups.reconciliation import MemberState
from aiokproto.codec.payloads.consumer_groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from aiokproto.codec.payloads.consumer_groups import TopicPartitions as Assigned

KEYS = Keys(
    {
        3: ConsumerGroupMetadataKey,
        5: ConsumerGroupMemberMetadataKey,
        6: ConsumerGroupTargetAssignmentMetadataKey,
        7: ConsumerGroupTargetAssignmentMemberKey,
        8: ConsumerGroupCurrentMemberAssignmentKey,
        16: ConsumerGroupRegularExpressionKey,
    }
)

_MEMBER_KEYS = (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
)

_PATTERN_PREFIX = KEYS.prefix(ConsumerGroupRegularExpressionKey)


def changes(group: ConsumerGroup, written: Image, wall_ms: int) -> list[Record]:
    """Return the records to write for what changed in a group, and update ``written``.

    Args:
        group: The group. Only members in ``dirty`` are considered.
        written: The image of the group in the topic.
        wall_ms: The wall-clock time (ms).
    """
    members = KEYS.member_records(_MEMBER_KEYS, group, _encode_member)
    return update(written, [*_group_records(group), *members, *_pattern_records(group, written, wall_ms)])


def restore(group: ConsumerGroup, image: Mapping[bytes, bytes], now: float) -> None:
    """Restore a new group from its image."""
    for _, metadata in KEYS.read(image, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue):
        group.epoch, group.metadata_hash = metadata.epoch, metadata.metadata_hash
    for _, assignment in KEYS.read(
        image, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ):
        group.assignment_epoch = assignment.assignment_epoch
    members = {
        key.member_id: _decode_member(key.member_id, value)
        for key, value in KEYS.read(image, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue)
    }
    targets = {
        key.member_id: frozenset(
            (topic.topic_id, index) for topic in value.topic_partitions for index in topic.partitions
        )
        for key, value in KEYS.read(
            image, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue
        )
    }
    for key, state in KEYS.read(
        image, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
    ):
        if key.member_id in members:
            _restore_state(members[key.member_id], state)
    matches = {
        key.regular_expression: frozenset(value.topics)
        for key, value in KEYS.read(image, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue)
    }
    group.restore(members.values(), targets, now, matches)


def _restore_state(member: ConsumerMember, state: ConsumerGroupCurrentMemberAssignmentValue) -> None:
    member.epoch, member.previous_epoch = state.member_epoch, state.previous_member_epoch
    member.state = MemberState(state.state)
    member.assigned = _partition_epochs(state.assigned_partitions, state.member_epoch)
    member.pending_revocation = _partition_epochs(state.partitions_pending_revocation, state.member_epoch)


def _group_records(group: ConsumerGroup) -> Iterable[tuple[bytes, bytes]]:
    yield (
        KEYS.encode(ConsumerGroupMetadataKey(group_id=group.group_id)),
        encode_value(ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)),
    )
    yield (
        KEYS.encode(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id)),
        encode_value(ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)),
    )


def _pattern_records(group: ConsumerGroup, written: Image, wall_ms: int) -> Iterable[Record]:
    patterns: dict[bytes, bytes] = {}
    for pattern, names in group.subscriptions.matches.items():
        key = KEYS.encode(ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=pattern))
        topics = sorted(names)
        before = written.get(key)
        # Only the topics are compared, because the value contains a timestamp and would differ at each heartbeat.
        if before is not None and decode_value(ConsumerGroupRegularExpressionValue, before).topics == topics:
            patterns[key] = before
        else:
            value = ConsumerGroupRegularExpressionValue(topics=topics, version=group.epoch, timestamp=wall_ms)
            patterns[key] = encode_value(value)
    # Patterns that are no longer used get a tombstone.
    yield from [(key, None) for key in written if key.startswith(_PATTERN_PREFIX) and key not in patterns]
    yield from patterns.items()


def _encode_member(member: ConsumerMember, target: TopicIdPartitions) -> tuple[bytes, ...]:
    return _encode_metadata(member), _encode_target(target), _encode_assignment(member)


def _encode_metadata(member: ConsumerMember) -> bytes:
    classic_metadata = None
    if member.classic is not None:
        classic_metadata = ClassicMemberMetadata(
            session_timeout_ms=int(member.classic.session_timeout * 1000),
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.classic.protocols],
        )
    return encode_value(
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex or None,
            rebalance_timeout_ms=int(member.rebalance_timeout * 1000),
            server_assignor=member.assignor,
            classic_member_metadata=classic_metadata,
        )
    )


def _decode_member(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic_metadata = value.classic_member_metadata
    classic = None
    if classic_metadata is not None and classic_metadata.supported_protocols:
        protocols = tuple((each.name, bytes(each.metadata)) for each in classic_metadata.supported_protocols)
        classic = ClassicProtocolMetadata(classic_metadata.session_timeout_ms / 1000, protocols)
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


def _encode_target(partitions: TopicIdPartitions) -> bytes:
    return encode_value(
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(partitions).items()
            ]
        )
    )


def _encode_assignment(member: ConsumerMember) -> bytes:
    return encode_value(
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_encode_partitions(member.assigned),
            partitions_pending_revocation=_encode_partitions(member.pending_revocation),
        )
    )


def _encode_partitions(partitions: Mapping[TopicIdPartition, int]) -> list[Assigned]:
    return [
        Assigned(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[partitions[topic_id, index] for index in indexes],
        )
        for topic_id, indexes in by_topic(partitions).items()
    ]


def _partition_epochs(topics: Iterable[Assigned], epoch: int) -> dict[TopicIdPartition, int]:
    """Return partitions with their assignment epochs. Records from before KIP-1251 don't contain them; the member epoch
    takes their place."""
    found: dict[TopicIdPartition, int] = {}
    for topic in topics:
        epochs = with_epochs(topic.partitions, topic.assignment_epochs, epoch)
        found.update({(topic.topic_id, index): since for index, since in epochs})
    return found
