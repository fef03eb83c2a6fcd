"""ReadShareGroupStateSummary (KIP-932): where share partitions begin. v1 how many offsets are done (KIP-1226)."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.broker.share.state import PartitionState
from aiokproto.codec.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


async def handle(request: ReadShareGroupStateSummaryRequest, context: Context) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
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
        state = context.share_states.summary(*key) or PartitionState(-1, 0, 0, (), -1)
    except BrokerError as error:
        return PartitionResult(
            partition=asked.partition,
            error_code=error.code,
            error_message=error.detail,
            state_epoch=0,
            leader_epoch=0,
            start_offset=0,
        )
    return PartitionResult(
        partition=asked.partition,
        error_code=ErrorCode.NONE,
        error_message=None,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
