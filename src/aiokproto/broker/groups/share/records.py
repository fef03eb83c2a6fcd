"""The records of a share group in the offsets topic, in Kafka's format: see :mod:`aiokproto.broker.groups.image`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokproto.broker.groups.assignment import TopicIdPartitions, by_topic
from aiokproto.broker.groups.epoch_group import INITIAL_EPOCH
from aiokproto.broker.groups.image import Image, Keys, Record, decode_value, encode_value, update
from aiokproto.broker.groups.share.group import ShareGroup, ShareMember
from aiokproto.broker.groups.share.state_metadata import StatePartitionMetadata, StateTopic, Topics
from aiokproto.codec.payloads.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitionsInfo,
)
from aiokproto.codec.payloads.share_groups import TopicPartitions as Assigned

KEYS = Keys(
    {
        10: ShareGroupMemberMetadataKey,
        11: ShareGroupMetadataKey,
        12: ShareGroupTargetAssignmentMetadataKey,
        13: ShareGroupTargetAssignmentMemberKey,
        14: ShareGroupCurrentMemberAssignmentKey,
        15: ShareGroupStatePartitionMetadataKey,
    }
)

_MEMBER_KEYS = (
    ShareGroupMemberMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
)

_STABLE = 0
"""The state in the record of a share member: there is only this one."""


def changes(group: ShareGroup, written: Image, wall_ms: int) -> list[Record]:
    """Return the records to write for what changed in a group, and update ``written``.

    Args:
        group: The group. Only members in ``dirty`` are considered.
        written: The image of the group in the topic.
        wall_ms: The wall-clock time (ms).
    """
    members = KEYS.member_records(_MEMBER_KEYS, group, _encode_member)
    return update(written, [*_group_records(group, written, wall_ms), *members])


def restore(group: ShareGroup, image: Mapping[bytes, bytes], now: float) -> None:
    """Restore a new group from its image."""
    for _, metadata in KEYS.read(image, ShareGroupMetadataKey, ShareGroupMetadataValue):
        group.epoch, group.metadata_hash = metadata.epoch, metadata.metadata_hash
    for _, assignment in KEYS.read(
        image, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue
    ):
        group.assignment_epoch = assignment.assignment_epoch
    for _, states in KEYS.read(image, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue):
        group.states = _decode_state_metadata(states)
    members = {
        key.member_id: _decode_member(key.member_id, value)
        for key, value in KEYS.read(image, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue)
    }
    targets = {
        key.member_id: _decode_partitions(value.topic_partitions)
        for key, value in KEYS.read(image, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue)
    }
    for key, current in KEYS.read(image, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue):
        member = members.get(key.member_id)
        if member is not None:
            member.epoch, member.previous_epoch = current.member_epoch, current.previous_member_epoch
            member.assigned = _decode_partitions(current.assigned_partitions)
    group.restore(members.values(), targets, now)


def _group_records(group: ShareGroup, written: Image, wall_ms: int) -> Iterable[tuple[bytes, bytes]]:
    group_id = group.group_id
    if group.epoch > INITIAL_EPOCH:
        metadata = ShareGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
        yield KEYS.encode(ShareGroupMetadataKey(group_id=group_id)), encode_value(metadata)
    if group.assignment_epoch > INITIAL_EPOCH:
        key = KEYS.encode(ShareGroupTargetAssignmentMetadataKey(group_id=group_id))
        yield key, _encode_assignment_metadata(group, written.get(key), wall_ms)
    if group.states.recorded:
        key = KEYS.encode(ShareGroupStatePartitionMetadataKey(group_id=group_id))
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=_encode_topics(group.states.initializing),
            initialized_topics=_encode_topics(group.states.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(group.states.deleting.items())
            ],
        )
        yield key, encode_value(value)


def _encode_assignment_metadata(group: ShareGroup, before: bytes | None, wall_ms: int) -> bytes:
    if before is not None:
        known = decode_value(ShareGroupTargetAssignmentMetadataValue, before)
        if known.assignment_epoch == group.assignment_epoch:
            return before
    return encode_value(
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=group.assignment_epoch,
            # The epoch of an empty group is set without computing an assignment.
            assignment_timestamp=wall_ms if group.members else 0,
        )
    )


def _encode_member(member: ShareMember, target: TopicIdPartitions) -> tuple[bytes, ...]:
    return _encode_metadata(member), _encode_target(target), _encode_assignment(member)


def _encode_metadata(member: ShareMember) -> bytes:
    return encode_value(
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
        )
    )


def _decode_member(member_id: str, value: ShareGroupMemberMetadataValue) -> ShareMember:
    topics = frozenset(value.subscribed_topic_names)
    return ShareMember(member_id, value.rack_id, value.client_id, value.client_host, topics)


def _encode_target(partitions: TopicIdPartitions) -> bytes:
    return encode_value(
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(partitions).items()
            ]
        )
    )


def _encode_assignment(member: ShareMember) -> bytes:
    return encode_value(
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=_STABLE,
            assigned_partitions=[
                Assigned(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(member.assigned).items()
            ],
        )
    )


def _decode_partitions(topics: Iterable[Assigned | TopicPartition]) -> TopicIdPartitions:
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)


def _decode_state_metadata(value: ShareGroupStatePartitionMetadataValue) -> StatePartitionMetadata:
    return StatePartitionMetadata(
        _decode_topics(value.initializing_topics),
        _decode_topics(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
        recorded=True,
    )


def _decode_topics(topics: Iterable[TopicPartitionsInfo]) -> Topics:
    return {topic.topic_id: StateTopic(topic.topic_name, frozenset(topic.partitions)) for topic in topics}


def _encode_topics(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in sorted(topics.items())
    ]
