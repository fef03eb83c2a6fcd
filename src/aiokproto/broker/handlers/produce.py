"""Produce: append record batches.

v0-2 carry old message formats, which Kafka 4 no longer accepts. They're converted, as in Kafka 3. v10 (KIP-951): leader
hints. v12 (KIP-890): a transaction's first batch in a partition adds the partition to the transaction, without an
AddPartitionsToTxn request. v13: topic ids (KIP-516).

With acks=0 there is no response. After an error, the connection is closed, which is the only way to report it. acks=1
and acks=all differ only in ``min.insync.replicas``, because there is one copy of the data.
"""

from __future__ import annotations

from functools import partial

from aiokproto.broker.config.options import TopicOptions
from aiokproto.broker.log.header import BatchHeader
from aiokproto.broker.log.validation import InvalidRecords, check_records, is_quick
from aiokproto.broker.metadata.topics import Partition
from aiokproto.broker.request_context import CloseConnection, RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import ProducerIdAndEpoch
from aiokproto.broker.yield_budget import ITEM
from aiokproto.codec.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records.batch import TRANSACTIONAL

_IMPLICIT_ADD_VERSION = 12
"""The first version in which a transaction's first batch in a partition adds the partition to it (KIP-890)."""

_UNVERIFIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
"""Errors of the transaction coordinator that a retry can overcome.

As in Kafka, they're returned as NOT_ENOUGH_REPLICAS, which every producer retries without refreshing its metadata.
"""

REQUIRES = (
    Required(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, versions=Versions.parse("3+")),
    Required(Operation.WRITE, ResourceType.TOPIC),
)


async def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    responses = [await _append_topic(topic, request, context) for topic in request.topic_data]
    partitions = [partition for topic in responses for partition in topic.partition_responses]
    if request.acks == 0:
        failed = [partition for partition in partitions if partition.error_code]
        if failed:
            # KafkaApis closes the connection, too. The client then refreshes its metadata.
            raise CloseConnection(f"Produce with acks=0 failed: {ErrorCode(failed[0].error_code).name}")
        return None
    # List only nodes that a hint refers to: without hints, the client doesn't need endpoints (KIP-951).
    hints = {partition.current_leader.leader_id for partition in partitions} - {-1}
    return ProduceResponse(
        responses=responses,
        node_endpoints=[
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port)
            for node in (context.state.alive if hints else ())
            if node.node_id in hints
        ],
    )


async def _append_topic(
    requested: TopicProduceData, request: ProduceRequest, context: RequestContext
) -> TopicProduceResponse:
    responses: list[PartitionProduceResponse] = []
    turns = context.turns
    if turns.uses_up():
        await turns.pause()
    for partition in requested.partition_data:
        responses.append(await _response(requested, partition, request, context))
        # A large request must not block the other connections while its batches are checked and appended.
        if turns.uses_up(ITEM + len(partition.records or b"")):
            await turns.pause()
    return TopicProduceResponse(name=requested.name, topic_id=requested.topic_id, partition_responses=responses)


async def _response(
    requested: TopicProduceData, data: PartitionProduceData, request: ProduceRequest, context: RequestContext
) -> PartitionProduceResponse:
    try:
        return await _append(requested, data, request, context)
    except BrokerError as error:
        response = PartitionProduceResponse(
            index=data.index, error_code=error.code, base_offset=-1, error_message=error.detail
        )
        if isinstance(error, InvalidRecords):
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                for index, text in error.records
            ]
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and context.version >= 10:
            # This can't fail: NOT_LEADER_OR_FOLLOWER is only raised for existing partitions.
            name = context.topic_name(requested.name, requested.topic_id, context.version >= 13)
            partition = context.state.partition(name, data.index)
            response.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
        return response


async def _append(
    requested: TopicProduceData, data: PartitionProduceData, request: ProduceRequest, context: RequestContext
) -> PartitionProduceResponse:
    partition, options = _writable(requested, data, request, context)
    now = context.state.clock.wall()
    check = partial(check_records, data.records, options, context.version, now)
    if not partition.opening and is_quick(data.records, options, context.version, now):
        batch = check()
    else:
        # The thread preserves the order: if a batch for this partition is being opened, even small batches must wait
        # for it.
        partition.opening += 1
        try:
            batch = await context.opening.run(check)
        finally:
            partition.opening -= 1
        # Check again, since everything can have changed in the meantime. There is no await between this and the append.
        partition, _ = _writable(requested, data, request, context)
        now = context.state.clock.wall()
    _check_transaction(BatchHeader.read(batch), partition, request.transactional_id, context)
    appended = partition.append(batch, now)
    return PartitionProduceResponse(
        index=data.index,
        error_code=ErrorCode.NONE,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.timestamp,
        log_start_offset=partition.log.start_offset,
    )


def _writable(
    requested: TopicProduceData, data: PartitionProduceData, request: ProduceRequest, context: RequestContext
) -> tuple[Partition, TopicOptions]:
    # Check this before anything about the topic: the producer is misconfigured, whatever the topic.
    if request.acks not in (-1, 0, 1):
        raise BrokerError(ErrorCode.INVALID_REQUIRED_ACKS, detail=f"acks is {request.acks}, not -1, 0 or 1")
    name = context.topic_name(requested.name, requested.topic_id, context.version >= 13)
    partition = context.state.led_partition(name, data.index, context.node.node_id)
    topic = context.state.topics[name]
    # Kafka makes the same exception: a tool can write to internal topics if it uses the client id of Kafka's admin
    # client.
    if topic.internal and context.client_id != "__admin_client":
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, detail=f"topic {name} is internal: clients cannot write to it"
        )
    # As in Kafka's Partition.appendRecordsToLeader(), only acks=all requires this. With other acks, producers accept
    # that a record may be lost along with the leader.
    if request.acks == -1:
        context.state.check_in_sync(partition)
    return partition, topic.options


def _check_transaction(
    header: BatchHeader, partition: Partition, transactional_id: str | None, context: RequestContext
) -> None:
    if not header.attributes & TRANSACTIONAL:
        return
    # As in Kafka, a missing id is an authorization error.
    if transactional_id is None:
        raise BrokerError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, detail="a transactional batch needs a transactional id"
        )
    # The transaction's first batch in this partition has already been verified. Since then, the log keeps track of the
    # transaction.
    if partition.log.producers.in_transaction(header.producer_id, header.producer_epoch):
        return
    producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
    adds = context.version >= _IMPLICIT_ADD_VERSION
    try:
        context.transactions.verify_or_add_partition(
            transactional_id, producer, partition, adds=adds, abortable=context.version >= 11
        )
    except BrokerError as error:
        if error.code not in _UNVERIFIED:
            raise
        detail = f"the transaction could not be verified: {error.code.name}"
        raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, detail=detail) from None
    if adds and header.base_sequence > 0 and not partition.log.producers.knows(header.producer_id):
        # With an epoch for each transaction (KIP-890), an unknown producer starts at sequence 0. Retention can't have
        # deleted its earlier batches in this epoch, since they belong to this open transaction.
        detail = f"producer {header.producer_id} is unknown and starts with sequence {header.base_sequence}, not 0"
        raise BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, detail=detail)
