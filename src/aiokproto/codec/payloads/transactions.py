"""The records of ``__transaction_state``, and the files about producers beside a partition's log (KIP-98)."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    Payload,
    ProducerId,
    Struct,
    TopicName,
    TransactionalId,
    field,
    int8,
    int16,
    int32,
    int64,
    uint32,
)


class TransactionLogKey(Payload, versions="0"):
    transactional_id: TransactionalId = ""


class PartitionsSchema(Struct):
    topic: TopicName = ""
    partition_ids: list[PartitionIndex] = field(factory=list)


class TransactionLogValue(Payload, versions="0-1", flexible="1+"):
    producer_id: ProducerId = 0
    previous_producer_id: ProducerId = field("1+", tag=0, default=-1)
    next_producer_id: ProducerId = field("1+", tag=1, default=-1)
    producer_epoch: int16 = 0
    next_producer_epoch: int16 = field("1+", tag=3, default=-1)
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(factory=list)
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: int16 = field("1+", tag=2, default=0)


class AbortedTxn(Payload, versions="0"):
    producer_id: ProducerId = 0
    first_offset: int64 = 0
    last_offset: int64 = 0
    last_stable_offset: int64 = 0


class ProducerEntry(Struct):
    producer_id: ProducerId = 0
    epoch: int16 = 0
    last_sequence: int32 = 0
    last_offset: int64 = 0
    offset_delta: int32 = 0
    timestamp: int64 = 0
    coordinator_epoch: int32 = 0
    current_txn_first_offset: int64 = 0


class ProducerSnapshot(Payload, versions="1"):
    crc: uint32 = 0
    producer_entries: list[ProducerEntry] = field(factory=list)
