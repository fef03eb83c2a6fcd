"""InitializeShareGroupState (KIP-932): create or reset the state of share partitions at their coordinator."""

from __future__ import annotations

from aiokproto.broker.handlers.share_group_states import partition_results
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.codec.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),)


async def handle(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    def serve(key: SharePartitionKey, partition: PartitionData) -> PartitionResult:
        context.share_states.initialize(*key, partition.state_epoch, partition.start_offset)
        return PartitionResult(partition=partition.partition, error_code=ErrorCode.NONE, error_message=None)

    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in await partition_results(request, context, serve, _failed)
        ]
    )


def _failed(partition: int, error: BrokerError) -> PartitionResult:
    return PartitionResult(partition=partition, error_code=error.code, error_message=error.detail)
