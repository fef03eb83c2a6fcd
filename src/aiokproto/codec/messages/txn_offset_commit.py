"""TxnOffsetCommit (ApiKey 28): commit the offsets of a group as part of a transaction."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    ProducerId,
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
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class TxnOffsetCommitResponsePartition(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    """Results of one topic."""

    name: TopicName = field("0-5", default="", ignorable=True)
    topic_id: TopicId = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = field(factory=list)


class TxnOffsetCommitResponse(Response, key=28, versions="0-6", flexible="3+", client_throttles="1+"):
    """One result per partition. Errors: see `TxnOffsetCommitRequest`."""

    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(factory=list)


class TxnOffsetCommitRequestPartition(Struct):
    """The offset of one partition."""

    partition_index: PartitionIndex = 0
    committed_offset: int64 = 0
    """Offset of the next record to read: one after the last processed."""
    committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    """Leader epoch of the last processed record; -1: unknown."""
    committed_metadata: string | None = ""
    """Arbitrary string from the caller, stored with the offset; limited by `offset.metadata.max.bytes`. null is stored
    as empty."""


class TxnOffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name: TopicName = field("0-5", default="", ignorable=True)
    topic_id: TopicId = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = field(factory=list)


class TxnOffsetCommitRequest(
    Request[TxnOffsetCommitResponse], key=28, versions="0-6", flexible="3+", route=Route.GROUP
):
    """Commit offsets that take effect when the transaction commits.

    Sent by transactional producers to the group coordinator (not to the transaction coordinator). Before version 5,
    send AddOffsetsToTxn first. Since version 5 (KIP-890), the coordinator adds the group to the transaction itself.

    Errors: per partition: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID (version 6+), INVALID_PRODUCER_EPOCH, PRODUCER_FENCED,
    INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE (version 4+),
    UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION (before version 6, also for an old member epoch), STALE_MEMBER_EPOCH and
    GROUP_ID_NOT_FOUND (version 6+), FENCED_INSTANCE_ID, OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT, REQUEST_TIMED_OUT.
    """

    transactional_id: TransactionalId = ""
    """`transactional.id` of the producer."""
    group_id: GroupId = ""
    """Group whose offsets are committed."""
    producer_id: ProducerId = 0
    """Id that InitProducerId returned to the producer."""
    producer_epoch: int16 = 0
    """Epoch of `producer_id`. The broker rejects an epoch older than the newest it knows."""
    generation_id_or_member_epoch: int32 = field("3+", default=-1)
    """Generation or member epoch of the consumer, to fence consumers that have left the group (KIP-447); -1: not
    checked."""
    member_id: string = field("3+", default="")
    """Id of the consumer in the group; empty: not checked."""
    group_instance_id: string | None = field("3+", default=None)
    """`group.instance.id` of a static member; null: dynamic."""
    topics: list[TxnOffsetCommitRequestTopic] = field(factory=list)
