"""ShareGroupDescribe (KIP-932): state, members and assignments of share groups."""

from __future__ import annotations

from aiokproto.broker.groups.assignment import by_topic
from aiokproto.broker.groups.share import assignor
from aiokproto.broker.groups.share.group import ShareGroup, ShareMember
from aiokproto.broker.handlers.group_requests import describe_groups
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.GROUP),
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="refuses groups that have the topics"),
)


async def handle(request: ShareGroupDescribeRequest, context: RequestContext) -> ShareGroupDescribeResponse:
    operations = request.include_authorized_operations
    groups = await describe_groups(request.group_ids, _describe_group, context, operations=operations)
    return ShareGroupDescribeResponse(groups=groups)


def _describe_group(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        context.groups.check_coordinator(group_id, context.node.node_id)
        group = context.groups.share_group(group_id)
        members = [_describe_member(member, context) for member in group.members.values()]
        _require_topics(members, context)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.detail)
    return _describe_existing(group, members)


def _describe_existing(group: ShareGroup, members: list[Member]) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor.NAME,
        members=members,
    )


def _require_topics(members: list[Member], context: RequestContext) -> None:
    """Raise :class:`BrokerError` if the client is not permitted to describe all assigned topics, as in Kafka."""
    for name in {topic.topic_name for member in members for topic in member.assignment.topic_partitions}:
        context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _describe_member(member: ShareMember, context: RequestContext) -> Member:
    found = ((context.state.topic_by_id(topic_id), indexes) for topic_id, indexes in by_topic(member.assigned).items())
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=indexes)
                for topic, indexes in found
                # Deleted topics are left out.
                if topic is not None
            ]
        ),
    )
