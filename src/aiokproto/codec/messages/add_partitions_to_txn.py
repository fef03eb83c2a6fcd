"""AddPartitionsToTxn (ApiKey 24): add partitions that a transaction writes to."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    ProducerId,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    TransactionalId,
    field,
    int16,
    int32,
)


class AddPartitionsToTxnResult(Struct):
    """The result of one transaction."""

    transactional_id: TransactionalId = ""
    """The transactional id."""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    partition_error_code: int16 = 0
    """Error of this partition; 0: none. OPERATION_NOT_ATTEMPTED: another partition of the transaction failed."""


class AddPartitionsToTxnTopicResult(Struct):
    """The results of one topic's partitions."""

    name: TopicName = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(factory=list)


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+", client_throttles="1+"):
    """One result per partition, grouped by transaction since version 4. Errors: see `AddPartitionsToTxnRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)


class AddPartitionsToTxnTransaction(Struct):
    """A transaction, and the partitions to add or verify."""

    transactional_id: TransactionalId = ""
    """The transactional id."""
    producer_id: ProducerId = 0
    """The producer id."""
    producer_epoch: int16 = 0
    """Epoch of the producer."""
    verify_only: bool = False
    """True: only check that the partitions belong to the open transaction; false: add them."""
    topics: list[AddPartitionsToTxnTopic] = field(factory=list)


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class AddPartitionsToTxnRequest(
    Request[AddPartitionsToTxnResponse], key=24, versions="0-5", flexible="3+", route=Route.TRANSACTION
):
    """Add partitions to an open transaction before writing to them (KIP-98). Since version 4, add or verify the
    partitions of several transactions (KIP-890).

    Sent by transactional producers (up to version 3) or partition leaders (version 4 and later) to the coordinator of
    the transactional id.

    Errors: CLUSTER_AUTHORIZATION_FAILED (version 4 and later); per partition: TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, OPERATION_NOT_ATTEMPTED, NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH,
    PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE.
    """

    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: TransactionalId = field("0-3", default="")
    """Transactional id of the one transaction."""
    v3_and_below_producer_id: ProducerId = field("0-3", default=0)
    """Producer id of that transaction."""
    v3_and_below_producer_epoch: int16 = field("0-3", default=0)
    """Epoch of that producer."""
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)
