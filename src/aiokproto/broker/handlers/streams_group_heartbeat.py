"""StreamsGroupHeartbeat (KIP-1071): join, stay in and leave a streams group. v1: a wider ``acceptable_recovery_lag``.

Missing internal topics are created while handling a heartbeat, with the client's permissions. The next heartbeat finds
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.broker.groups.reconciliation import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
)
from aiokproto.broker.groups.streams.group import StreamsGroup, StreamsHeartbeatResult
from aiokproto.broker.groups.streams.member import Endpoint as MemberEndpoint
from aiokproto.broker.groups.streams.member import StreamsHeartbeat, Task, TaskRole, Tasks, Topology
from aiokproto.broker.groups.streams.records import by_subtopology
from aiokproto.broker.groups.streams.topology import check
from aiokproto.broker.handlers.group_requests import check_not_blank, invalid, named_topics
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicPartition,
)
from aiokproto.codec.messages.streams_group_heartbeat import TopicInfo as TopicInfoRequest
from aiokproto.codec.messages.streams_group_heartbeat import Topology as TopologyRequest
from aiokproto.codec.payloads.streams_groups import CopartitionGroup, Subtopology, TopicConfig, TopicInfo
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.texts import shortened

_DETAIL = 2000
"""Maximum length of the list of missing topics, and of topics that can't be created, in characters. There can be
thousands of topics, but a string in a response is limited to 32,767 bytes."""

_TASK_OFFSET_INTERVAL_MS = 60_000
_ACCEPTABLE_RECOVERY_LAG = 10_000
"""Sent to members for warm-up tasks, which this assignor never assigns."""

REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP),
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="refuses the request"),
    Required(
        Operation.CREATE, ResourceType.TOPIC, unless=Operation.CREATE, otherwise="does not create internal topics"
    ),
)


async def handle(request: StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsGroupHeartbeatResponse:
    try:
        await _authorize_topics(request.topology, context)
        _check(request)
        context.groups.check_coordinator(request.group_id, context.node.node_id)
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            context.groups.streams_leave(request.group_id, request.member_id, request.instance_id, request.member_epoch)
            return _response(request.member_id, request.member_epoch)
        heartbeat = _parse(request, context)
        if heartbeat.topology is not None:
            check(heartbeat.topology)
        result = context.groups.streams_heartbeat(request.group_id, heartbeat)
        # The heartbeat has found that topics are missing. They're created here because the group does no I/O, and has
        # no client to authorize.
        group = context.groups.streams_group(request.group_id)
        return _heartbeat_response(result, heartbeat, group, _create_topics(group, context))
    except BrokerError as error:
        return _response("", 0, error_code=error.code, error_message=error.detail)


def _response(
    member_id: str, epoch: int, error_code: int = ErrorCode.NONE, error_message: str | None = None
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=error_code,
        error_message=error_message,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )


# ---- the request


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """Validate the request without looking at the group. Raises :class:`BrokerError`."""
    check_not_blank(request, "group_id", "member_id", "instance_id", "rack_id")
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise invalid(f"member_epoch is {request.member_epoch}")
    if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and request.instance_id is None:
        raise invalid("member_epoch -2 needs an instance_id: only static members can leave temporarily")
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise invalid("rebalance_timeout_ms must be set to join")
        if any(owned):
            raise invalid("active_tasks, standby_tasks and warmup_tasks must be empty to join")
        if request.topology is None:
            raise invalid("topology must be set to join")
    elif request.topology is not None:
        raise invalid("topology can only be set to join")
    if any(tasks is None for tasks in owned) and any(tasks is not None for tasks in owned):
        raise invalid("active_tasks, standby_tasks and warmup_tasks must be all null or all set")


async def _authorize_topics(topology: TopologyRequest | None, context: RequestContext) -> None:
    """Check the topics of the topology, and the client's permissions for them. Raises :class:`BrokerError`."""
    if topology is None:
        return
    names = named_topics(topology.subtopologies)
    # As in Kafka, check this before the permissions: it reveals nothing about other clients' topics.
    if OFFSETS_TOPIC in names:
        raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, detail=f"{OFFSETS_TOPIC} is an internal topic of Kafka")
    async for name in context.each(sorted(names)):
        context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _parse(request: StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsHeartbeat:
    timeout, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    return StreamsHeartbeat(
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        max(timeout, 0) / 1000 if timeout != -1 else None,
        _topology(request.topology) if request.topology is not None else None,
        _tasks(request.active_tasks, request.standby_tasks, request.warmup_tasks),
        request.process_id,
        MemberEndpoint(endpoint.host, endpoint.port) if endpoint is not None else None,
        {tag.key: tag.value for tag in tags} if tags is not None else None,
        request.endpoint_information_epoch,
        request.shutdown_application,
        context.client_id,
        f"/{context.client_host}",
    )


def _topology(requested: TopologyRequest) -> Topology:
    """Convert a topology to the form that is stored in the group's record."""
    return Topology(
        epoch=requested.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=subtopology.source_topics,
                source_topic_regex=subtopology.source_topic_regex,
                state_changelog_topics=_topic_infos(subtopology.state_changelog_topics),
                repartition_sink_topics=subtopology.repartition_sink_topics,
                repartition_source_topics=_topic_infos(subtopology.repartition_source_topics),
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in subtopology.copartition_groups
                ],
            )
            for subtopology in requested.subtopologies
        ],
    )


def _topic_infos(requested: list[TopicInfoRequest]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=info.name,
            partitions=info.partitions,
            replication_factor=info.replication_factor,
            topic_configs=[TopicConfig(key=config.key, value=config.value) for config in info.topic_configs],
        )
        for info in requested
    ]


def _tasks(*kinds: list[TaskIds] | None) -> Tasks | None:
    """Return the tasks that the member reports, or None if it doesn't report them."""
    if any(ids is None for ids in kinds):
        return None
    return frozenset(
        Task(role, task_ids.subtopology_id, index)
        for role, ids in zip(TaskRole, kinds, strict=True)
        for task_ids in ids or ()
        for index in task_ids.partitions
    )


# ---- the response


def _create_topics(group: StreamsGroup, context: RequestContext) -> str:
    """Create missing internal topics with the client's permissions. Return a message about the topics that failed."""
    failures = []
    may_create_all = context.is_authorized(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    for info in group.configured.missing.values():
        try:
            if not may_create_all:
                context.authorize(Operation.CREATE, ResourceType.TOPIC, info.name)
            context.state.create_topic(
                info.name,
                info.partitions,
                info.replication_factor or -1,
                {config.key: config.value for config in info.topic_configs},
            )
        except BrokerError as error:
            failures.append(f"; {info.name} cannot be created: {error.detail or error.code.name}")
    return shortened("".join(failures), _DETAIL)


def _heartbeat_response(
    result: StreamsHeartbeatResult, heartbeat: StreamsHeartbeat, group: StreamsGroup, failures: str
) -> StreamsGroupHeartbeatResponse:
    response = _response(result.member_id, result.epoch)
    response.heartbeat_interval_ms = round(group.settings.heartbeat_interval * 1000)
    response.task_offset_interval_ms = _TASK_OFFSET_INTERVAL_MS
    response.acceptable_recovery_lag = _ACCEPTABLE_RECOVERY_LAG
    response.status = [
        Status(
            status_code=status.code,
            status_detail=shortened(status.detail, _DETAIL) + (failures if status == group.configured.error else ""),
        )
        for status in result.statuses
    ]
    if result.assigned is not None:
        response.active_tasks = _task_ids(result.assigned, TaskRole.ACTIVE)
        response.standby_tasks = _task_ids(result.assigned, TaskRole.STANDBY)
        response.warmup_tasks = _task_ids(result.assigned, TaskRole.WARMUP)
    response.endpoint_information_epoch = result.endpoint_epoch
    if result.endpoint_epoch != heartbeat.endpoint_epoch:
        response.partitions_by_user_endpoint = list(_endpoints(group))
    return response


def _task_ids(tasks: Tasks, role: TaskRole) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology, partitions=indexes)
        for subtopology, indexes in by_subtopology(tasks, role).items()
    ]


def _endpoints(group: StreamsGroup) -> Iterable[EndpointToPartitions]:
    for member in group.members.values():
        if member.endpoint is not None:
            yield EndpointToPartitions(
                user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
                active_partitions=_partitions(group.partitions(member, TaskRole.ACTIVE)),
                standby_partitions=_partitions(group.partitions(member, TaskRole.STANDBY)),
            )


def _partitions(topics: dict[str, list[int]]) -> list[TopicPartition]:
    return [TopicPartition(topic=name, partitions=indexes) for name, indexes in topics.items()]
