"""DeleteRecords: move the log start offset of partitions forward (KIP-107). -1 means the high watermark."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.DELETE, ResourceType.TOPIC),)


async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    results: list[DeleteRecordsTopicResult] = []
    async for topic in context.each(request.topics):
        partitions = [_delete(topic.name, requested, context) async for requested in context.each(topic.partitions)]
        results.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    # If the log start offset wasn't checkpointed, deleted records would reappear after a crash.
    context.state.checkpoint()
    return DeleteRecordsResponse(topics=results)


def _delete(topic: str, requested: DeleteRecordsPartition, context: RequestContext) -> DeleteRecordsPartitionResult:
    index = requested.partition_index
    try:
        partition = context.state.led_partition(topic, index, context.node.node_id)
        if "delete" not in str(context.state.topics[topic].options.value("cleanup.policy")):
            raise BrokerError(ErrorCode.POLICY_VIOLATION)
        end = partition.log.end_offset
        partition.log.delete_before(end if requested.offset == -1 else requested.offset, context.state.clock.wall())
    except BrokerError as error:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=error.code)
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=partition.log.start_offset, error_code=ErrorCode.NONE
    )
