"""DeleteShareGroupState (KIP-932): forget the states of share partitions."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.codec.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


async def handle(request: DeleteShareGroupStateRequest, context: Context) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=topic.topic_id,
                partitions=[_answer(request.group_id, topic.topic_id, asked, context) for asked in topic.partitions],
            )
            # Of a group without a name nothing is known, not even that it is an error.
            for topic in (request.topics if request.group_id else ())
            if topic.partitions
        ]
    )


def _answer(group: str, topic_id: bytes, asked: PartitionData, context: Context) -> PartitionResult:
    key = SharePartitionKey(group, topic_id, asked.partition)
    try:
        context.share_states.check(key, context.node.node_id)
        context.share_states.delete(*key)
    except BrokerError as error:
        return PartitionResult(partition=asked.partition, error_code=error.code, error_message=error.detail)
    return PartitionResult(partition=asked.partition, error_code=ErrorCode.NONE, error_message=None)
