"""The records of ``__transaction_state``, and the producer state files next to a partition's log (KIP-98)."""

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
    """Key of a transaction's record in `__transaction_state`."""

    transactional_id: TransactionalId = ""
    """The transactional id."""


class PartitionsSchema(Struct):
    """Partitions of one topic."""

    topic: TopicName = ""
    partition_ids: list[PartitionIndex] = field(factory=list)


class TransactionLogValue(Payload, versions="0-1", flexible="1+"):
    """State of a transactional id."""

    producer_id: ProducerId = 0
    """Producer id in use."""
    previous_producer_id: ProducerId = field("1+", tag=0, default=-1)
    """Producer id of the last committed transaction; -1: none (KIP-890)."""
    next_producer_id: ProducerId = field("1+", tag=1, default=-1)
    """Latest producer id sent to the producer; -1: none (KIP-890)."""
    producer_epoch: int16 = 0
    """Epoch of the producer."""
    next_producer_epoch: int16 = field("1+", tag=3, default=-1)
    """Epoch that belongs to `next_producer_id`; -1: none."""
    transaction_timeout_ms: int32 = 0
    """Time after which the coordinator aborts the transaction, in ms."""
    transaction_status: int8 = 0
    """0: Empty; 1: Ongoing; 2: PrepareCommit; 3: PrepareAbort; 4: CompleteCommit; 5: CompleteAbort; 6: Dead; 7:
    PrepareEpochFence."""
    transaction_partitions: list[PartitionsSchema] | None = field(factory=list)
    """Partitions in the transaction; null: none."""
    transaction_last_update_timestamp_ms: int64 = 0
    """Time of the last change, in ms since 1970."""
    transaction_start_timestamp_ms: int64 = 0
    """Time the transaction started, in ms since 1970; -1: none is open."""
    client_transaction_version: int16 = field("1+", tag=2, default=0)
    """Transaction version (`transaction.version`) that the client uses."""


class AbortedTxn(Payload, versions="0"):
    """Entry of a segment's transaction index: an aborted transaction."""

    producer_id: ProducerId = 0
    """The producer id."""
    first_offset: int64 = 0
    """First offset of the transaction."""
    last_offset: int64 = 0
    """Offset of its ABORT marker."""
    last_stable_offset: int64 = 0
    """Last stable offset of the partition when the marker was written."""


class ProducerEntry(Struct):
    """A producer in the snapshot."""

    producer_id: ProducerId = 0
    """The producer id."""
    epoch: int16 = 0
    """Latest epoch of the producer."""
    last_sequence: int32 = 0
    """Sequence number of its last record."""
    last_offset: int64 = 0
    """Offset of its last record."""
    offset_delta: int32 = 0
    """Last offset minus first offset of its last batch."""
    timestamp: int64 = 0
    """Timestamp of its last batch, in ms since 1970."""
    coordinator_epoch: int32 = 0
    """Epoch of the transaction coordinator that wrote its last marker; -1: none."""
    current_txn_first_offset: int64 = 0
    """First offset of its open transaction; -1: none is open."""


class ProducerSnapshot(Payload, versions="1"):
    """Producer state of a partition at the offset in the file's name (`.snapshot`)."""

    crc: uint32 = 0
    """CRC-32C of the bytes after this field."""
    producer_entries: list[ProducerEntry] = field(factory=list)
