"""ConsumerGroupHeartbeat (KIP-848): join, stay in and leave a consumer group.

v1: regular expressions, and the member generates its own id. In v0, it can leave that to the coordinator.
"""

from __future__ import annotations

from aiokproto.broker.groups.assignment import TopicIdPartitions
from aiokproto.broker.groups.consumer.assignors import ASSIGNORS
from aiokproto.broker.groups.consumer.member import ConsumerHeartbeat
from aiokproto.broker.groups.reconciliation import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
)
from aiokproto.broker.handlers.group_requests import (
    check_consumer_protocol,
    check_not_blank,
    heartbeat_response,
    invalid,
)
from aiokproto.broker.patterns import compile_pattern
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current

REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP),
    Required(
        Operation.DESCRIBE,
        ResourceType.TOPIC,
        otherwise="refuses the request, leaves out topics that match its pattern",
    ),
)


async def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerGroupHeartbeatResponse:
    try:
        check_consumer_protocol(context)
        async for name in context.each(request.subscribed_topic_names or ()):
            # As in KafkaApis, a single topic without permission fails the heartbeat. With a pattern, such topics are
            # only left out.
            context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
        _check(request, context.version)
        context.groups.check_coordinator(request.group_id, context.node.node_id)
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            result = context.groups.consumer_leave(
                request.group_id, request.member_id, request.instance_id, request.member_epoch
            )
            interval = 0.0
        else:
            result = context.groups.consumer_heartbeat(request.group_id, _parse(request, context))
            interval = context.groups.consumer_settings(request.group_id).heartbeat_interval
    except BrokerError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.detail)
    return heartbeat_response(result, interval, ConsumerGroupHeartbeatResponse, Assignment, TopicPartitions)


def _check(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Validate the request without looking at the group. Raises :class:`BrokerError`."""
    check_not_blank(request, "group_id", "instance_id", "rack_id")
    joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    if request.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise invalid(f"member_epoch is {request.member_epoch}")
    # Since v1, the client generates its member id (KIP-1082), so retrying the first heartbeat doesn't add a second
    # member.
    if not request.member_id.strip() and not (joining and version == 0):
        raise invalid("member_id is empty")
    if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and request.instance_id is None:
        raise invalid("member_epoch -2 needs an instance_id: only static members can leave temporarily")
    if joining:
        if request.rebalance_timeout_ms == -1:
            raise invalid("rebalance_timeout_ms must be set to join")
        # A member that joins owns nothing: it lost its earlier partitions with its membership.
        if request.topic_partitions is None or request.topic_partitions:
            raise invalid("topic_partitions must be an empty list to join")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise invalid("subscribed_topic_names or subscribed_topic_regex must be set to join")
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            detail=f"server_assignor {request.server_assignor!r} is not one of {', '.join(ASSIGNORS)}",
        )
    if request.subscribed_topic_regex:
        # Compile the pattern now, so an invalid pattern never gets into the group.
        compile_pattern(request.subscribed_topic_regex)


def _parse(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerHeartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    timeout = request.rebalance_timeout_ms
    return ConsumerHeartbeat(
        request.member_id or str(current().uuid()),
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        max(timeout, 0) / 1000 if timeout != -1 else None,
        frozenset(names) if names is not None else None,
        request.subscribed_topic_regex,
        request.server_assignor,
        _owned(owned) if owned is not None else None,
        context.client_id,
        f"/{context.client_host}",
        lambda name: context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, name),
    )


def _owned(topics: list[TopicPartitions]) -> TopicIdPartitions:
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)
