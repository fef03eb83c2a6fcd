"""OffsetFetch: how far groups have read. v2 null for all topics, v5 leader epoch, v8 many groups, v10 topic ids.

A partition without an offset answers -1, whether it exists or not. With ``require_stable`` (v7, KIP-447) one that
an open transaction is about to change answers UNSTABLE_OFFSET_COMMIT; member id and epoch (v9) are looked at in
consumer groups alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
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
"""Stands for an offset in doubt."""


async def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.version >= 8:
        return OffsetFetchResponse(groups=[_answer(group, request.require_stable, context) for group in request.groups])
    topics = request.topics
    asked = None
    if topics is not None:
        asked = [OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics]
    group = _answer(OffsetFetchRequestGroup(group_id=request.group_id, topics=asked), request.require_stable, context)
    # v0 and v1 have no place for the group's error but with each partition.
    error = group.error_code
    if error and context.version < 2:
        return OffsetFetchResponse(topics=_all_failed(asked or [], error))
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            OffsetFetchResponseTopic(name=topic.name, partitions=[_in_old_form(each) for each in topic.partitions])
            for topic in group.topics
        ],
    )


def _all_failed(asked: Iterable[OffsetFetchRequestTopics], error: int) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
                for index in topic.partition_indexes
            ],
        )
        for topic in asked
    ]


def _in_old_form(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def _answer(asked: OffsetFetchRequestGroup, stable: bool, context: RequestContext) -> OffsetFetchResponseGroup:
    try:
        context.groups.check_coordinator(asked.group_id, context.node.node_id)
    except BrokerError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=error.code)
    refused = context.groups.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
    if refused:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=refused)
    entry = context.groups.entry(asked.group_id)
    offsets = entry.offsets if entry is not None else {}
    if stable:
        offsets = {**offsets, **dict.fromkeys(context.groups.pending_offsets(asked.group_id), _UNSTABLE)}
    if asked.topics is None:
        topics = list(_all(offsets, context))
    else:
        topics = [_of_topic(topic, offsets, context) for topic in asked.topics]
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _all(
    offsets: dict[tuple[str, int], OffsetAndMetadata], context: RequestContext
) -> Iterator[OffsetFetchResponseTopics]:
    by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for (name, index), committed in offsets.items():
        by_topic.setdefault(name, []).append(_partition(index, committed))
    for name, partitions in by_topic.items():
        topic = context.state.topics.get(name)
        if topic is not None and context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            yield OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions)


def _of_topic(
    asked: OffsetFetchRequestTopics, offsets: dict[tuple[str, int], OffsetAndMetadata], context: RequestContext
) -> OffsetFetchResponseTopics:
    error = ErrorCode.NONE
    name = asked.name
    try:
        name = context.topic_name(asked.name, asked.topic_id, context.version >= 10)
    except BrokerError as unknown:
        error = unknown.code
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[_partition(index, offsets.get((name, index), _NONE), error) for index in asked.partition_indexes],
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
