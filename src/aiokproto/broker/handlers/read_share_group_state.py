"""ReadShareGroupState (KIP-932): the state of share partitions, for their leaders."""

from __future__ import annotations

from aiokproto.broker.handlers.share_group_states import partition_results
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.codec.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),)


async def handle(request: ReadShareGroupStateRequest, context: RequestContext) -> ReadShareGroupStateResponse:
    def serve(key: SharePartitionKey, partition: PartitionData) -> PartitionResult:
        state = context.share_states.read(*key, partition.leader_epoch)
        return PartitionResult(
            partition=partition.partition,
            error_code=ErrorCode.NONE,
            error_message=None,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                StateBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in state.batches
            ],
        )

    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in await partition_results(request, context, serve, _failed)
        ]
    )


def _failed(partition: int, error: BrokerError) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        error_code=error.code,
        error_message=error.detail,
        state_epoch=0,
        start_offset=0,
        state_batches=[],
    )
