"""OffsetCommit: keep how far a group has read. v6 leader epoch, v7 static members, v10 topic ids (KIP-848).

v0, which once wrote to ZooKeeper, is kept like the others. v1 brings its own commit time, v2-4 a retention.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiokproto.broker.groups.assignment import TopicIdPartition
from aiokproto.broker.groups.classic_member import Identity
from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.handlers.committed_offsets import collect_offsets
from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


async def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    error = _check(request, context)
    offsets: dict[tuple[str, int], OffsetAndMetadata] = {}
    topics = [_commit_topic(topic, request, error, offsets, context) for topic in request.topics]
    if offsets:
        context.groups.commit(request.group_id, offsets)
    return OffsetCommitResponse(topics=topics)


def _check(request: OffsetCommitRequest, context: RequestContext) -> ErrorCode:
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
    except BrokerError as error:
        return error.code
    who = Identity(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    return context.groups.check_commit(request.group_id, who, context.version, _places(request, context))


def _places(request: OffsetCommitRequest, context: RequestContext) -> Iterator[TopicIdPartition]:
    """What it commits for, by topic id. Unknown topics are refused one by one."""
    for asked in request.topics:
        topic = context.state.topics.get(asked.name)
        topic_id = topic.topic_id if topic is not None else asked.topic_id
        yield from ((topic_id, each.partition_index) for each in asked.partitions)


def _commit_topic(
    topic: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    error: ErrorCode,
    offsets: dict[tuple[str, int], OffsetAndMetadata],
    context: RequestContext,
) -> OffsetCommitResponseTopic:
    now = context.state.clock.wall()
    errors = collect_offsets(
        topic, error, offsets, lambda each: _committed(each, request, now), context, by_id=context.version >= 10
    )
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in errors],
    )


def _committed(asked: OffsetCommitRequestPartition, request: OffsetCommitRequest, now: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        asked.commit_timestamp if asked.commit_timestamp >= 0 else now,
        now + request.retention_time_ms if request.retention_time_ms >= 0 else -1,
    )
