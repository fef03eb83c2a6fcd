"""WriteShareGroupState (KIP-932): merge the state of share partitions. v1: delivery complete count (KIP-1226)."""

from __future__ import annotations

from aiokproto.broker.handlers.share_group_states import partition_results
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.share.records import ShareGroupOffset, SharePartitionKey, StateBatch
from aiokproto.codec.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),)


async def handle(request: WriteShareGroupStateRequest, context: RequestContext) -> WriteShareGroupStateResponse:
    def serve(key: SharePartitionKey, partition: PartitionData) -> PartitionResult:
        batches = tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in partition.state_batches
        )
        state = ShareGroupOffset(
            partition.start_offset,
            partition.state_epoch,
            partition.leader_epoch,
            batches,
            partition.delivery_complete_count,
        )
        context.share_states.write(*key, state)
        return PartitionResult(partition=partition.partition, error_code=ErrorCode.NONE, error_message=None)

    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in await partition_results(request, context, serve, _failed)
        ]
    )


def _failed(partition: int, error: BrokerError) -> PartitionResult:
    return PartitionResult(partition=partition, error_code=error.code, error_message=error.detail)
