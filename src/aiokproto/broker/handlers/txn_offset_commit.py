"""TxnOffsetCommit: commit a group's offsets as part of a transaction (KIP-98).

v3: member and generation (KIP-447). v4: TRANSACTION_ABORTABLE errors. v5 (KIP-890): adds the group's partition of the
offsets topic to the transaction. v6: topic ids.
"""

from __future__ import annotations

from aiokproto.broker.groups.classic_member import Identity
from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.handlers.committed_offsets import collect_offsets, partition_ids
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import ProducerIdAndEpoch
from aiokproto.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Required(Operation.READ, ResourceType.GROUP),
    Required(Operation.READ, ResourceType.TOPIC),
)


async def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    now = context.state.clock.wall()
    offsets: dict[tuple[str, int], OffsetAndMetadata] = {}
    errors = [
        await collect_offsets(
            topic, offsets, lambda partition: _committed(partition, now), context, by_id=context.version >= 6
        )
        async for topic in context.each(request.topics)
    ]
    error = ErrorCode.NONE
    try:
        _check(request, context)
        if offsets:
            context.groups.commit_pending(request.group_id, request.producer_id, request.producer_epoch, offsets)
    except BrokerError as refused:
        # This includes a failed append. Everything has failed then, so no partition may be reported as a success.
        error = refused.code
    topics: list[TxnOffsetCommitResponseTopic] = []
    async for topic, of_topic in context.each(zip(request.topics, errors, strict=True)):
        partitions = [
            TxnOffsetCommitResponsePartition(partition_index=index, error_code=error or code)
            async for index, code in context.each(of_topic)
        ]
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)


def _check(request: TxnOffsetCommitRequest, context: RequestContext) -> None:
    context.groups.check_coordinator(request.group_id, context.node.node_id)
    partition = context.groups.partition_of(request.group_id)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    # A transaction's first offsets are checked with its coordinator. After that, the log keeps track of the
    # transaction.
    if not partition.log.producers.in_transaction(*producer):
        context.transactions.verify_or_add_partition(
            request.transactional_id, producer, partition, adds=context.version >= 5, abortable=context.version >= 4
        )
    # Check the member after the transaction, so a fenced producer gets the error about its epoch, not the one about its
    # group.
    member = Identity(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    error = context.groups.check_transactional_commit(request.group_id, member, partition_ids(request, context))
    if error:
        raise BrokerError(error)


def _committed(partition: TxnOffsetCommitRequestPartition, now: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now
    )
