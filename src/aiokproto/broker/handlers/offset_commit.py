"""OffsetCommit: commit a group's offsets. v6: leader epochs (KIP-320). v7: static members. v10: topic ids (KIP-848).

v0, which Kafka stored in ZooKeeper, is stored like the others. v1 has a commit timestamp, v2-4 a retention time.
"""

from __future__ import annotations

from aiokproto.broker.groups.classic_member import Identity
from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.handlers.committed_offsets import collect_offsets, partition_ids
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP),
    Required(Operation.READ, ResourceType.TOPIC),
)


async def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    now = context.state.clock.wall()
    offsets: dict[tuple[str, int], OffsetAndMetadata] = {}
    errors = [
        await collect_offsets(
            topic, offsets, lambda each: _committed(each, request, now), context, by_id=context.version >= 10
        )
        async for topic in context.each(request.topics)
    ]
    # Once for the request: the group's error is that of each partition, since the response has no field for it.
    error = _check(request, context)
    # In one batch, after all partitions were looked at: offsets of valid partitions are committed even if others fail.
    if offsets and not error:
        context.groups.commit(request.group_id, offsets)
    topics: list[OffsetCommitResponseTopic] = []
    async for topic, of_topic in context.each(zip(request.topics, errors, strict=True)):
        partitions = [
            OffsetCommitResponsePartition(partition_index=index, error_code=error or code)
            async for index, code in context.each(of_topic)
        ]
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return OffsetCommitResponse(topics=topics)


def _check(request: OffsetCommitRequest, context: RequestContext) -> ErrorCode:
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
    except BrokerError as error:
        return error.code
    # In v0 the fields of the member have their defaults: no generation, as a consumer with assigned partitions.
    identity = Identity(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    return context.groups.check_commit(request.group_id, identity, context.version, partition_ids(request, context))


def _committed(
    topic_request: OffsetCommitRequestPartition, request: OffsetCommitRequest, now: int
) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        topic_request.committed_offset,
        topic_request.committed_leader_epoch,
        topic_request.committed_metadata or "",
        # Only v1 has it. Every other commit has the broker's time, by which it expires.
        topic_request.commit_timestamp if topic_request.commit_timestamp >= 0 else now,
        now + request.retention_time_ms if request.retention_time_ms >= 0 else -1,
    )
