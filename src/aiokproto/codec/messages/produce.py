"""Produce (ApiKey 0): append record batches to partitions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    TransactionalId,
    field,
    int16,
    int32,
    int64,
    recordset,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class BatchIndexAndErrorMessage(Struct):
    """A record that made the broker reject its batch (KIP-467)."""

    batch_index: int32 = 0
    """Index of the record in the batch, from 0."""
    batch_index_error_message: string | None = None
    """What is wrong with the record; null: see the message of the partition."""


class LeaderIdAndEpoch(Struct):
    """The leader the broker knows of, which saves the client a Metadata request (KIP-951)."""

    leader_id: BrokerId = -1
    """Broker that leads the partition; -1: unknown, or the error is not about the leader."""
    leader_epoch: int32 = -1
    """Epoch of that leader; -1: unknown."""


class PartitionProduceResponse(Struct):
    """The result of one partition."""

    index: PartitionIndex = 0
    error_code: int16 = 0
    base_offset: int64 = field(default=0, refused=-1)
    """Offset of the first record appended; -1: an error, or a duplicate whose offset the broker no longer knows."""
    log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
    """Timestamp the broker gave all records, in ms since the Unix epoch; -1: the topic uses CreateTime."""
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    """First offset of the log; -1: unknown."""
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list, ignorable=True)
    """The records that caused the error; empty: not known, or the error is about the whole batch."""
    error_message: string | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0, factory=LeaderIdAndEpoch)
    """Set with NOT_LEADER_OR_FOLLOWER. The leader's address is in `node_endpoints`."""


class TopicProduceResponse(Struct):
    """Results of one topic."""

    name: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(factory=list)


class NodeEndpoint(Struct):
    """Address of a broker mentioned in a `current_leader`."""

    node_id: BrokerId = 0
    """Id of the broker."""
    host: string = ""
    """Host name or address to connect to."""
    port: int32 = 0
    """TCP port."""
    rack: string | None = None
    """Rack of the broker (`broker.rack`); null: none configured."""


class ProduceResponse(Response, key=0, versions="0-13", flexible="9+", client_throttles="6+"):
    """One result per partition. There is no response to a request with `acks` 0. Errors: see `ProduceRequest`."""

    responses: list[TopicProduceResponse] = field(factory=list)
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, factory=list)
    """Addresses of the leaders in `current_leader`."""


class PartitionProduceData(Struct):
    """Records for one partition."""

    index: PartitionIndex = 0
    records: recordset | None = None
    """Record batches to append. Since version 3, exactly one batch of format 2."""


class TopicProduceData(Struct):
    """Records for the partitions of one topic."""

    name: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = field(factory=list)


class ProduceRequest(Request[ProduceResponse], key=0, versions="0-13", flexible="9+", route=Route.LEADER):
    """Append record batches to partitions.

    Sent by producers to the leader of the partitions. A partition that fails does not affect the others.

    Errors: per partition: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID (version 13+),
    INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS (too few in-sync replicas, or the
    leader could not verify the transaction yet, KIP-890), NOT_ENOUGH_REPLICAS_AFTER_APPEND (appended, but to too few
    replicas), REQUEST_TIMED_OUT, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD,
    INVALID_TIMESTAMP, INVALID_REQUEST, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE,
    OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS (version 12+), TRANSACTION_ABORTABLE
    (version 11+), KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
    """

    transactional_id: TransactionalId | None = field("3+", default=None)
    """`transactional.id` of a transactional producer; null: records outside of transactions."""
    acks: int16 = 0
    """When the broker responds. 0: never; 1: once the leader has appended; -1: once all in-sync replicas have
    appended."""
    timeout_ms: int32 = 0
    """With `acks` -1, how long the broker may wait for the replicas, in ms. After that: REQUEST_TIMED_OUT, although the
    records have been appended."""
    topic_data: list[TopicProduceData] = field(factory=list)
