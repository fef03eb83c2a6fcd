"""StreamsGroupDescribe (KIP-1071): state, topology, members and tasks of streams groups. v1: the assignor."""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.broker.groups.streams.assignor import NAME
from aiokproto.broker.groups.streams.group import StreamsGroup
from aiokproto.broker.groups.streams.member import StreamsMember, Task, TaskRole
from aiokproto.broker.groups.streams.records import by_subtopology
from aiokproto.broker.handlers.group_requests import describe_groups, named_topics
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from aiokproto.codec.payloads.streams_groups import TopicInfo as InternalTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.GROUP),
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="refuses groups that have the topics"),
)


async def handle(request: StreamsGroupDescribeRequest, context: RequestContext) -> StreamsGroupDescribeResponse:
    operations = request.include_authorized_operations
    groups = await describe_groups(request.group_ids, _describe_group, context, operations=operations)
    return StreamsGroupDescribeResponse(groups=groups)


def _describe_group(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        context.groups.check_coordinator(group_id, context.node.node_id)
        group = context.groups.streams_group(group_id)
        _authorize_topics(group, context)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.detail)
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=NAME,
        topology=_topology(group),
        members=[_describe_member(member, group) for member in group.members.values()],
    )


def _authorize_topics(group: StreamsGroup, context: RequestContext) -> None:
    """Check that the client may describe all topics of the topology. Raises :class:`BrokerError`.

    As in Kafka, the response otherwise says nothing about the group: the members' tasks would reveal the topics.
    """
    if group.topology is None:
        return
    for name in sorted(named_topics(group.topology.subtopologies)):
        context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _topology(group: StreamsGroup) -> Topology | None:
    if group.topology is None:
        return None
    return Topology(
        epoch=group.topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=subtopology.source_topics,
                repartition_sink_topics=subtopology.repartition_sink_topics,
                state_changelog_topics=[_info(info, group) for info in subtopology.state_changelog_topics],
                repartition_source_topics=[_info(info, group) for info in subtopology.repartition_source_topics],
            )
            for subtopology in group.topology.subtopologies
        ],
    )


def _info(info: InternalTopic, group: StreamsGroup) -> TopicInfo:
    """Return an internal topic, with the number of partitions that the coordinator chose."""
    return TopicInfo(
        name=info.name,
        partitions=group.configured.sizes.get(info.name, info.partitions),
        replication_factor=info.replication_factor,
        topic_configs=[KeyValue(key=config.key, value=config.value) for config in info.topic_configs],
    )


def _describe_member(member: StreamsMember, group: StreamsGroup) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=Endpoint(host=endpoint.host, port=endpoint.port) if endpoint is not None else None,
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags.items()],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.targets[member.member_id]),
        is_classic=False,
    )


def _assignment(tasks: Iterable[Task]) -> Assignment:
    active, standby, warmup = (
        [
            TaskIds(subtopology_id=subtopology, partitions=indexes)
            for subtopology, indexes in by_subtopology(tasks, role).items()
        ]
        for role in TaskRole
    )
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
