"""TxnOffsetCommit: keep how far a group has read, if and when the transaction commits.

v3 (KIP-447) says for which member, v4 knows TRANSACTION_ABORTABLE, v5 (KIP-890) adds the group to the transaction, v6
has topic ids.
"""

from __future__ import annotations

from aiokproto.broker.groups.classic_member import Identity
from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.handlers.offset_commit import check_offset
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.transactions.transaction import ProducerIdentity
from aiokproto.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


async def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    offsets: dict[tuple[str, int], OffsetAndMetadata] = {}
    error = ErrorCode.NONE
    try:
        _check(request, context)
    except BrokerError as refused:
        error = refused.code
    topics = [_take(topic, error, offsets, context) for topic in request.topics]
    if offsets:
        try:
            context.groups.commit_pending(request.group_id, request.producer_id, request.producer_epoch, offsets)
        except BrokerError as refused:
            topics = [_take(topic, refused.code, {}, context) for topic in request.topics]
    return TxnOffsetCommitResponse(topics=topics)


def _check(request: TxnOffsetCommitRequest, context: RequestContext) -> None:
    context.groups.check_coordinator(request.group_id, context.node.node_id)
    partition = context.groups.partition_of(request.group_id)
    who = ProducerIdentity(request.producer_id, request.producer_epoch)
    if not partition.log.producers.in_transaction(*who):
        context.transactions.admit(
            request.transactional_id, who, partition, adds=context.version >= 5, abortable=context.version >= 4
        )
    member = Identity(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    error = context.groups.check_transactional_commit(request.group_id, member)
    if error:
        raise BrokerError(error)


def _take(
    topic: TxnOffsetCommitRequestTopic,
    error: ErrorCode,
    offsets: dict[tuple[str, int], OffsetAndMetadata],
    context: RequestContext,
) -> TxnOffsetCommitResponseTopic:
    """Put a topic's offsets into ``offsets``; what cannot be kept gets its error in the answer."""
    name = topic.name
    try:
        name = context.topic_name(topic.name, topic.topic_id, context.version >= 6)
    except BrokerError as unknown:
        error = error or unknown.code
    answers = []
    for asked in topic.partitions:
        wrong = error or check_offset(name, asked.partition_index, asked.committed_metadata, context)
        if not wrong:
            offsets[name, asked.partition_index] = OffsetAndMetadata(
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
                context.state.clock.wall(),
            )
        answers.append(TxnOffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=wrong))
    return TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
