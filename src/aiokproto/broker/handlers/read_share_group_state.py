"""ReadShareGroupState (KIP-932): the states of share partitions, for those who begin to lead them."""

from __future__ import annotations

from aiokproto.broker.context import Context
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


async def handle(request: ReadShareGroupStateRequest, context: Context) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
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
        state = context.share_states.read(*key, asked.leader_epoch)
    except BrokerError as error:
        return PartitionResult(
            partition=asked.partition,
            error_code=error.code,
            error_message=error.detail,
            state_epoch=0,
            start_offset=0,
            state_batches=[],
        )
    return PartitionResult(
        partition=asked.partition,
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
