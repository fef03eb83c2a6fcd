"""ConsumerGroupDescribe (KIP-848): state, members and assignments of consumer groups. v1: the members' protocols."""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.broker.groups.assignment import TopicIdPartition, by_topic
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ConsumerMember
from aiokproto.broker.handlers.group_requests import check_consumer_protocol, describe_groups
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_CLASSIC, _CONSUMER = 0, 1
"""Member types: the protocol that the member uses."""

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.GROUP),
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="refuses groups that have the topics"),
)


async def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> ConsumerGroupDescribeResponse:
    operations = request.include_authorized_operations
    groups = await describe_groups(request.group_ids, _describe_group, context, operations=operations)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe_group(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        check_consumer_protocol(context)
        context.groups.check_coordinator(group_id, context.node.node_id)
        entry = context.groups.entry(group_id)
        if entry is None or not isinstance(entry.group, ConsumerGroup):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no consumer group {group_id!r}")
        return _describe_existing(entry.group, context)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.detail)


def _describe_existing(group: ConsumerGroup, context: RequestContext) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_describe_member(member, group, context) for member in group.members.values()],
    )


def _describe_member(member: ConsumerMember, group: ConsumerGroup, context: RequestContext) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, context),
        target_assignment=_assignment(group.targets[member.member_id], context),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(partitions: Iterable[TopicIdPartition], context: RequestContext) -> Assignment:
    """Return an assignment, leaving out deleted topics.

    Raises:
        BrokerError: The client isn't authorized to describe one of the topics. If so, the response contains only the
            error.
    """
    assignment = Assignment(topic_partitions=[])
    for topic_id, indexes in by_topic(partitions).items():
        topic = context.state.topic_by_id(topic_id)
        if topic is not None:
            context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
            described = TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes)
            assignment.topic_partitions.append(described)
    return assignment
