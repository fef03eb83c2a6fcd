"""The records of a streams group in the offsets topic, in Kafka's format: see :mod:`aiokproto.broker.groups.image`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokproto.broker.groups.image import Image, Keys, Record, decode_value, encode_value, update, with_epochs
from aiokproto.broker.groups.reconciliation import MemberState
from aiokproto.broker.groups.streams.group import StreamsGroup
from aiokproto.broker.groups.streams.member import Endpoint as MemberEndpoint
from aiokproto.broker.groups.streams.member import StreamsMember, Task, TaskRole, Tasks
from aiokproto.codec.payloads.streams_groups import (
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetTaskIds,
    TaskIds,
)

KEYS = Keys(
    {
        17: StreamsGroupMetadataKey,
        19: StreamsGroupMemberMetadataKey,
        20: StreamsGroupTargetAssignmentMetadataKey,
        21: StreamsGroupTargetAssignmentMemberKey,
        22: StreamsGroupCurrentMemberAssignmentKey,
        23: StreamsGroupTopologyKey,
    }
)

_MEMBER_KEYS = (
    StreamsGroupMemberMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupCurrentMemberAssignmentKey,
)

_FIRST_STATE = 1
"""Records of streams members number the states from 1; records of consumer members, from 0."""


def changes(group: StreamsGroup, written: Image, wall_ms: int) -> list[Record]:
    """Return the records to write for what changed in a group, and update ``written``.

    Args:
        group: The group. Only members in ``dirty`` are considered.
        written: The image of the group in the topic.
        wall_ms: The wall-clock time (ms).
    """
    members = KEYS.member_records(_MEMBER_KEYS, group, _encode_member)
    return update(written, [*_group_records(group, written, wall_ms), *members])


def restore(group: StreamsGroup, image: Mapping[bytes, bytes], now: float) -> None:
    """Restore a new group from its image."""
    for _, metadata in KEYS.read(image, StreamsGroupMetadataKey, StreamsGroupMetadataValue):
        _restore_metadata(group, metadata)
    for _, assignment in KEYS.read(
        image, StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue
    ):
        group.assignment_epoch = assignment.assignment_epoch
    for _, topology in KEYS.read(image, StreamsGroupTopologyKey, StreamsGroupTopologyValue):
        group.topology = topology
    members = {
        key.member_id: _decode_member(key.member_id, value)
        for key, value in KEYS.read(image, StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue)
    }
    targets = {
        key.member_id: _decode_target(value)
        for key, value in KEYS.read(
            image, StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue
        )
    }
    for key, state in KEYS.read(
        image, StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue
    ):
        if key.member_id in members:
            _restore_state(members[key.member_id], state)
    group.restore(members.values(), targets, now)


def _restore_metadata(group: StreamsGroup, value: StreamsGroupMetadataValue) -> None:
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.last_assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}


def _restore_state(member: StreamsMember, state: StreamsGroupCurrentMemberAssignmentValue) -> None:
    member.epoch, member.previous_epoch = state.member_epoch, state.previous_member_epoch
    member.state = MemberState(state.state - _FIRST_STATE)
    assigned = (state.active_tasks, state.standby_tasks, state.warmup_tasks)
    pending_revocation = (
        state.active_tasks_pending_revocation,
        state.standby_tasks_pending_revocation,
        state.warmup_tasks_pending_revocation,
    )
    member.assigned = _decode_tasks(assigned, state.member_epoch)
    member.pending_revocation = _decode_tasks(pending_revocation, state.member_epoch)


def _group_records(group: StreamsGroup, written: Image, wall_ms: int) -> Iterable[tuple[bytes, bytes]]:
    if group.topology is not None:
        yield KEYS.encode(StreamsGroupTopologyKey(group_id=group.group_id)), encode_value(group.topology)
    yield (
        KEYS.encode(StreamsGroupMetadataKey(group_id=group.group_id)),
        encode_value(
            StreamsGroupMetadataValue(
                epoch=group.epoch,
                metadata_hash=group.metadata_hash,
                validated_topology_epoch=group.validated_topology_epoch,
                last_assignment_configs=[
                    LastAssignmentConfig(key=key, value=value) for key, value in group.last_assignment_configs.items()
                ],
            )
        ),
    )
    key = KEYS.encode(StreamsGroupTargetAssignmentMetadataKey(group_id=group.group_id))
    before = written.get(key)
    if before is not None:
        known = decode_value(StreamsGroupTargetAssignmentMetadataValue, before)
        if known.assignment_epoch == group.assignment_epoch:
            yield key, before
            return
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.assignment_epoch, assignment_timestamp=wall_ms
    )
    yield key, encode_value(value)


def _encode_member(member: StreamsMember, target: Tasks) -> tuple[bytes, ...]:
    return _encode_metadata(member), _encode_target(target), _encode_assignment(member)


def _encode_metadata(member: StreamsMember) -> bytes:
    endpoint = member.endpoint
    return encode_value(
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=int(member.rebalance_timeout * 1000),
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=Endpoint(host=endpoint.host, port=endpoint.port) if endpoint is not None else None,
            client_tags=[KeyValue(key=key, value=value) for key, value in member.tags.items()],
        )
    )


def _decode_member(member_id: str, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return StreamsMember(
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        max(value.rebalance_timeout_ms, 0) / 1000,
        value.topology_epoch,
        value.process_id,
        MemberEndpoint(endpoint.host, endpoint.port) if endpoint is not None else None,
        {each.key: each.value for each in value.client_tags},
    )


def _encode_target(tasks: Tasks) -> bytes:
    active, standby, warmup = (
        [
            TargetTaskIds(subtopology_id=each, partitions=indexes)
            for each, indexes in by_subtopology(tasks, role).items()
        ]
        for role in TaskRole
    )
    return encode_value(
        StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
    )


def _decode_target(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    by_role = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
    return frozenset(
        Task(role, ids.subtopology_id, index)
        for role, of_role in zip(TaskRole, by_role, strict=True)
        for ids in of_role
        for index in ids.partitions
    )


def _encode_assignment(member: StreamsMember) -> bytes:
    active, standby, warmup = (_encode_tasks(member.assigned, role) for role in TaskRole)
    lost, lost_standby, lost_warmup = (_encode_tasks(member.pending_revocation, role) for role in TaskRole)
    return encode_value(
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state + _FIRST_STATE,
            active_tasks=active,
            standby_tasks=standby,
            warmup_tasks=warmup,
            active_tasks_pending_revocation=lost,
            standby_tasks_pending_revocation=lost_standby,
            warmup_tasks_pending_revocation=lost_warmup,
        )
    )


def _encode_tasks(tasks: Mapping[Task, int], role: TaskRole) -> list[TaskIds]:
    """Encode a member's tasks of a role with their assignment epochs."""
    return [
        TaskIds(
            subtopology_id=subtopology,
            partitions=indexes,
            assignment_epochs=[tasks[Task(role, subtopology, index)] for index in indexes],
        )
        for subtopology, indexes in by_subtopology(tasks, role).items()
    ]


def _decode_tasks(by_role: Iterable[Iterable[TaskIds]], epoch: int) -> dict[Task, int]:
    """Return tasks with their assignment epochs. If a record doesn't contain them, the member epoch takes their
    place."""
    found: dict[Task, int] = {}
    for role, of_role in zip(TaskRole, by_role, strict=True):
        for ids in of_role:
            for index, since in with_epochs(ids.partitions, ids.assignment_epochs, epoch):
                found[Task(role, ids.subtopology_id, index)] = since
    return found


def by_subtopology(tasks: Iterable[Task], role: TaskRole) -> dict[str, list[int]]:
    """Return the partitions of tasks of a role by subtopology, in ascending order."""
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        if task.role is role:
            found.setdefault(task.subtopology, []).append(task.partition)
    return found
