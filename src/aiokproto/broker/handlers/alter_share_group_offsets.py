"""AlterShareGroupOffsets (KIP-932): reset the start offsets of a share group that has no members."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP),
    Required(Operation.READ, ResourceType.TOPIC),
)


async def handle(request: AlterShareGroupOffsetsRequest, context: RequestContext) -> AlterShareGroupOffsetsResponse:
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
        offsets: dict[str, dict[int, int]] = {}
        async for topic in context.each(request.topics):
            # A request may name a topic twice.
            partitions = offsets.setdefault(topic.topic_name, {})
            async for partition in context.each(topic.partitions):
                partitions[partition.partition_index] = partition.start_offset
        results = context.groups.alter_share_offsets(request.group_id, offsets)
    except BrokerError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.detail, responses=[])
    return AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.NONE,
        responses=[await _response(topic, results, context) async for topic in context.each(request.topics)],
    )


async def _response(
    requested: AlterShareGroupOffsetsRequestTopic, results: dict[tuple[str, int], ErrorCode], context: RequestContext
) -> AlterShareGroupOffsetsResponseTopic:
    topic = context.state.topics.get(requested.topic_name)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=requested.topic_name,
        topic_id=topic.topic_id if topic is not None else ZERO_UUID,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=partition.partition_index,
                error_code=results[requested.topic_name, partition.partition_index],
            )
            async for partition in context.each(requested.partitions)
        ],
    )
