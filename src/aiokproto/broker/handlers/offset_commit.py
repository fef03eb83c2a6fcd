"""OffsetCommit: keep how far a group has read. v6 leader epoch, v7 static members, v10 topic ids (KIP-848).

v0, which once wrote to ZooKeeper, is kept like the others. v1 brings its own commit time, v2-4 a retention.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiokproto.broker.groups.assignment import TopicIdPartition
from aiokproto.broker.groups.classic_member import Identity
from aiokproto.broker.groups.records import OffsetAndMetadata
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
    topics = [_take(topic, request, error, offsets, context) for topic in request.topics]
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


def _take(
    topic: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    error: ErrorCode,
    offsets: dict[tuple[str, int], OffsetAndMetadata],
    context: RequestContext,
) -> OffsetCommitResponseTopic:
    """Put a topic's offsets into ``offsets``; what cannot be kept gets its error in the answer."""
    name = topic.name
    try:
        name = context.topic_name(topic.name, topic.topic_id, context.version >= 10)
    except BrokerError as unknown:
        error = error or unknown.code
    answers = []
    for asked in topic.partitions:
        wrong = error or check_offset(name, asked.partition_index, asked.committed_metadata, context)
        if not wrong:
            offsets[name, asked.partition_index] = _committed(asked, request, context.state.clock.wall())
        answers.append(OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=wrong))
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def check_offset(topic: str, partition: int, metadata: str | None, context: RequestContext) -> ErrorCode:
    """Why an offset cannot be kept for a partition, whichever way it is committed."""
    if context.state.find_partition(topic, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len((metadata or "").encode()) > context.state.options.number("offset.metadata.max.bytes"):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(asked: OffsetCommitRequestPartition, request: OffsetCommitRequest, now: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        asked.commit_timestamp if asked.commit_timestamp >= 0 else now,
        now + request.retention_time_ms if request.retention_time_ms >= 0 else -1,
    )
