"""AddPartitionsToTxn: add partitions to a transaction before the producer writes to them (KIP-98).

v2: PRODUCER_FENCED errors. v4 (KIP-890) is for brokers: several transactions in one request, and ``verify_only``, which
only checks that the partitions have been added. v5: TRANSACTION_ABORTABLE errors.
"""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import ProducerIdAndEpoch, TopicPartition, fencing_code
from aiokproto.codec.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, versions=Versions.parse("4+")),
    Required(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, versions=Versions.parse("0-3")),
    Required(Operation.WRITE, ResourceType.TOPIC, versions=Versions.parse("0-3"), together=True),
)


async def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    if context.version >= 4:
        results = [await _result(transaction, context) async for transaction in context.each(request.transactions)]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    result = await _result(transaction, context)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


async def _add(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> dict[TopicPartition, ErrorCode]:
    """Return the error of each partition. If any partition is unknown, no partitions are added."""
    partitions: list[TopicPartition] = []
    unknown: set[TopicPartition] = set()
    async for topic in context.each(transaction.topics):
        async for index in context.each(topic.partitions):
            partitions.append((topic.name, index))
            if context.state.find_partition(topic.name, index) is None:
                unknown.add((topic.name, index))
    if unknown:
        # As in KafkaApis, either all partitions are added or none: the producer couldn't tell the state of a
        # transaction with only some of them.
        error, not_attempted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        return {partition: error if partition in unknown else not_attempted for partition in partitions}
    missing: list[TopicPartition] = []
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    try:
        context.transactions.check(transaction.transactional_id, context.node.node_id)
        if transaction.verify_only:
            missing = context.transactions.verify(transaction.transactional_id, producer, partitions)
        else:
            context.transactions.add_partitions(transaction.transactional_id, producer, partitions)
    except BrokerError as error:
        return dict.fromkeys(partitions, fencing_code(error.code, context.version >= 2))
    # TRANSACTION_ABORTABLE lets the producer abort and carry on. Before v5 (KIP-890), it only knows the fatal error.
    not_added = ErrorCode.TRANSACTION_ABORTABLE if context.version >= 5 else ErrorCode.INVALID_TXN_STATE
    return {partition: not_added if partition in missing else ErrorCode.NONE for partition in partitions}


async def _result(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> AddPartitionsToTxnResult:
    errors = await _add(transaction, context)
    topics: list[AddPartitionsToTxnTopicResult] = []
    async for topic in context.each(transaction.topics):
        partitions = [
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=errors[topic.name, index])
            async for index in context.each(topic.partitions)
        ]
        topics.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
    return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
