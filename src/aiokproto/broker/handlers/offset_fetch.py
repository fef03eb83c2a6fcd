"""OffsetFetch: the committed offsets of groups.

v2: null means all topics. v5: leader epochs (KIP-320). v8: several groups (KIP-709). v10: topic ids (KIP-848).

A partition without a committed offset has offset -1, whether it exists or not. With ``require_stable`` (v7, KIP-447), a
partition with a pending transactional offset gets the error UNSTABLE_OFFSET_COMMIT. Member id and epoch (v9) are
checked only in consumer and streams groups.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.handlers.once import Once
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_NONE = OffsetAndMetadata(-1, -1, "", -1)
_UNSTABLE = OffsetAndMetadata(-1, -1, "", -1, expires=0)
"""Marks a partition with a pending transactional offset. It's compared by identity."""

_COPIED = 32
"""How much work copying one offset counts as, in bytes."""

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.GROUP),
    Required(Operation.DESCRIBE, ResourceType.TOPIC),
)


async def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.version >= 8:
        once = Once()
        return OffsetFetchResponse(
            groups=[
                await _fetch_group(group, request.require_stable, context)
                async for group in context.each(request.groups)
                if once(group.group_id)
            ]
        )
    topics = request.topics
    requested = None
    if topics is not None:
        requested = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            async for topic in context.each(topics)
        ]
    group = await _fetch_group(
        OffsetFetchRequestGroup(group_id=request.group_id, topics=requested), request.require_stable, context
    )
    # v0 and v1 have no error code for the group, so every partition gets the group's error.
    error = group.error_code
    if error and context.version < 2:
        return OffsetFetchResponse(topics=await _all_failed(requested or [], error, context))
    found: list[OffsetFetchResponseTopic] = []
    async for topic in context.each(group.topics):
        partitions = [_to_single_group_form(partition) async for partition in context.each(topic.partitions)]
        found.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(error_code=error, topics=found)


async def _all_failed(
    requested: Iterable[OffsetFetchRequestTopics], error: int, context: RequestContext
) -> list[OffsetFetchResponseTopic]:
    failed: list[OffsetFetchResponseTopic] = []
    async for topic in context.each(requested):
        partitions = [
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            async for index in context.each(topic.partition_indexes)
        ]
        failed.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return failed


def _to_single_group_form(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


async def _fetch_group(
    requested: OffsetFetchRequestGroup, stable: bool, context: RequestContext
) -> OffsetFetchResponseGroup:
    try:
        context.groups.check_coordinator(requested.group_id, context.node.node_id)
    except BrokerError as error:
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=[], error_code=error.code)
    refused = context.groups.check_fetch(requested.group_id, requested.member_id, requested.member_epoch)
    if refused:
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=[], error_code=refused)
    entry = context.groups.entry(requested.group_id)
    # Copy the offsets, because a commit that happens while other tasks are running must not be seen half-applied.
    offsets = dict(entry.offsets) if entry is not None else {}
    if stable:
        # A consumer that takes over the partition would otherwise reread records that the open transaction is about to
        # mark as consumed.
        offsets |= dict.fromkeys(context.groups.pending_offsets(requested.group_id), _UNSTABLE)
    await context.turns.spend(_COPIED * len(offsets))
    if requested.topics is None:
        topics = await _all_topics(offsets, context)
    else:
        once = Once()
        topics = [await _topic(topic, offsets, once, context) async for topic in context.each(requested.topics)]
    return OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics)


async def _all_topics(
    offsets: dict[tuple[str, int], OffsetAndMetadata], context: RequestContext
) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
    async for (name, index), committed in context.each(offsets.items()):
        by_topic.setdefault(name, []).append(_partition(index, committed))
    topics: list[OffsetFetchResponseTopics] = []
    async for name, partitions in context.each(by_topic.items()):
        topic = context.state.topics.get(name)
        # As in Kafka, leave out other topics: the request doesn't list topics that could get an error.
        if topic is not None and context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, name):
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions))
    return topics


async def _topic(
    requested: OffsetFetchRequestTopics,
    offsets: dict[tuple[str, int], OffsetAndMetadata],
    once: Once,
    context: RequestContext,
) -> OffsetFetchResponseTopics:
    error = ErrorCode.NONE
    name = requested.name
    try:
        name = context.topic_name(requested.name, requested.topic_id, context.version >= 10)
    except BrokerError as unknown:
        error = unknown.code
    return OffsetFetchResponseTopics(
        name=requested.name,
        topic_id=requested.topic_id,
        partitions=[
            _partition(index, offsets.get((name, index), _NONE), error)
            async for index in context.each(requested.partition_indexes)
            if once(requested.name, requested.topic_id, index)
        ],
    )


def _partition(
    index: int, committed: OffsetAndMetadata, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if committed is _UNSTABLE and not error else error,
    )
