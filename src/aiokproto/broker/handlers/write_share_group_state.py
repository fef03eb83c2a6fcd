"""WriteShareGroupState (KIP-932): keep the states of share partitions. v1 how many offsets are done (KIP-1226)."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.broker.share.state import PartitionState, StateBatch
from aiokproto.codec.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


async def handle(request: WriteShareGroupStateRequest, context: Context) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
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
        batches = tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in asked.state_batches
        )
        state = PartitionState(
            asked.start_offset, asked.state_epoch, asked.leader_epoch, batches, asked.delivery_complete_count
        )
        context.share_states.write(*key, state)
    except BrokerError as error:
        return PartitionResult(partition=asked.partition, error_code=error.code, error_message=error.detail)
    return PartitionResult(partition=asked.partition, error_code=ErrorCode.NONE, error_message=None)
