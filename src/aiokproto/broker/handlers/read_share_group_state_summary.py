"""ReadShareGroupStateSummary (KIP-932): the start offsets of share partitions. v1: delivery complete count
(KIP-1226)."""

from __future__ import annotations

from aiokproto.broker.handlers.share_group_states import partition_results
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.share.records import ShareGroupOffset, SharePartitionKey
from aiokproto.codec.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),)


async def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    def serve(key: SharePartitionKey, partition: PartitionData) -> PartitionResult:
        state = context.share_states.summary(*key) or ShareGroupOffset(-1, 0, 0, (), -1)
        return PartitionResult(
            partition=partition.partition,
            error_code=ErrorCode.NONE,
            error_message=None,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in await partition_results(request, context, serve, _failed)
        ]
    )


def _failed(partition: int, error: BrokerError) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        error_code=error.code,
        error_message=error.detail,
        state_epoch=0,
        leader_epoch=0,
        start_offset=0,
    )
