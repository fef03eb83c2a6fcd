"""OffsetCommit: commit a group's offsets. v6: leader epochs (KIP-320). v7: static members. v10: topic ids (KIP-848).

Kafka kept v0 offsets in ZooKeeper. Here they're stored like other offsets. v1 has a commit timestamp, v2-4 have a
retention time.
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
            topic, offsets, lambda partition: _committed(partition, request, now), context, by_id=context.version >= 10
        )
        async for topic in context.each(request.topics)
    ]
    # Check the group once per request. The response has no field for the group's error, so each partition gets it.
    error = _check(request, context)
    # Commit all offsets in one batch, after the last partition. Valid partitions are committed even if others fail.
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
    # The member's fields have their defaults in v0: no generation, like a consumer that assigns its own partitions.
    identity = Identity(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    return context.groups.check_commit(request.group_id, identity, context.version, partition_ids(request, context))


def _committed(
    topic_request: OffsetCommitRequestPartition, request: OffsetCommitRequest, now: int
) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        topic_request.committed_offset,
        topic_request.committed_leader_epoch,
        topic_request.committed_metadata or "",
        # This timestamp determines when the offset expires. It's only in v1 requests; other commits get the broker's
        # time.
        topic_request.commit_timestamp if topic_request.commit_timestamp >= 0 else now,
        now + request.retention_time_ms if request.retention_time_ms >= 0 else -1,
    )
