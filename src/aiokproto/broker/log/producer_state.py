"""The state of a log's producers (Kafka's ProducerStateManager): duplicates, sequence gaps, open transactions (KIP-98).

A batch from an idempotent producer is accepted if its epoch isn't older than the latest one and its first sequence
number follows the last one. If it equals one of the last five batches, it's a duplicate: the retry of a request whose
response was lost.

``check`` is called before a batch is written, and ``appended`` afterwards. When a log is opened and replayed, only
``appended`` is called, because the batches have already been checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from aiokproto.broker.log.header import BatchHeader
from aiokproto.codec.payloads.transactions import AbortedTxn, ProducerEntry
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records.batch import TRANSACTIONAL
from aiokproto.records.control import EndTransaction

BATCHES_RETAINED = 5
"""How many batches to retain per producer: an idempotent producer has at most five requests in flight."""

_SEQUENCES = 0x7FFFFFFF
"""The highest sequence number; the next one is 0."""


class BatchMetadata(NamedTuple):
    """An appended batch."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """Its greatest timestamp (ms)."""


@dataclass(slots=True)
class ProducerStateEntry:
    """The state of one producer.

    Attributes:
        producer_id: Its id.
        epoch: Its latest epoch in this log.
        batches: Its last batches in that epoch; empty after a marker that started the epoch.
        last_seen: When it last wrote (ms), by the broker's clock. Record timestamps come from the producer, and can be
            anything.
        last_timestamp: The greatest timestamp (ms) of its last batch or marker; -1 if unknown.
        coordinator_epoch: The epoch of the coordinator that wrote its last marker here; -1 if there is none.
    """

    producer_id: int
    epoch: int
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_RETAINED))
    last_seen: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record; -1 if it hasn't written any in its epoch."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStateManager:
    """The idempotent and transactional producers of one log."""

    def __init__(self) -> None:
        # As in Kafka, the number of entries isn't limited: they expire after ``producer.id.expiration.ms`` (KIP-854).
        self._producers: dict[int, ProducerStateEntry] = {}
        # The first offset of each producer's open transaction, by producer id. Insertion order is offset order, so the
        # first value is the first unstable offset.
        self._open: dict[int, int] = {}

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._producers.values())

    # ---- transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction, if any."""
        return next(iter(self._open.values()), None)

    def transaction_start(self, producer_id: int) -> int | None:
        """Return the first offset of the producer's open transaction, if any."""
        return self._open.get(producer_id)

    def knows(self, producer_id: int) -> bool:
        """Return whether the log has state for the producer. It expires after ``producer.id.expiration.ms``."""
        return producer_id in self._producers

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has an open transaction in this epoch."""
        return producer_id in self._open and self._producers[producer_id].epoch == epoch

    # ---- appending

    def check(self, header: BatchHeader, marker: EndTransaction | None = None) -> BatchMetadata | None:
        """Check a producer's batch or transaction marker before it is appended.

        Returns:
            The appended batch that this one duplicates, or None if it's new.

        Raises:
            BrokerError: INVALID_PRODUCER_EPOCH. For a batch, OUT_OF_ORDER_SEQUENCE_NUMBER, or INVALID_TXN_STATE if it
                is not part of the producer's open transaction. For a marker, TRANSACTION_COORDINATOR_FENCED.
        """
        producer = self._producers.get(header.producer_id)
        # An unknown producer can start at any sequence number: retention may have removed its earlier batches
        # (KIP-360).
        if producer is None:
            return None
        # This is a zombie: another instance with the same id has a newer epoch.
        if header.producer_epoch < producer.epoch:
            # The code isn't PRODUCER_FENCED, which is fatal: after this error a producer aborts its transaction and
            # continues with a new epoch (KIP-588).
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                detail=f"producer {header.producer_id} has epoch {producer.epoch}, not {header.producer_epoch}",
            )
        # A marker has the producer's own epoch or a higher one (KIP-890), and no sequence number. Its coordinator must
        # not have been replaced: a zombie coordinator could end a transaction that has started since (KIP-98).
        if marker is not None:
            if marker.coordinator_epoch < producer.coordinator_epoch:
                raise BrokerError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    detail=f"the coordinator epoch is {producer.coordinator_epoch}, not {marker.coordinator_epoch}",
                )
            return None
        # Offset commits, which the group coordinator appends in a producer's transaction, don't have sequence numbers.
        known = _in_sequence(producer, header) if header.base_sequence >= 0 else None
        if known is None and header.producer_id in self._open and not header.attributes & TRANSACTIONAL:
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE,
                detail=f"producer {header.producer_id} has an open transaction, and this batch is not part of it",
            )
        return known

    def appended(self, header: BatchHeader, now: int, marker: EndTransaction | None = None) -> AbortedTxn | None:
        """Update the state after a producer's batch or transaction marker was appended.

        Args:
            header: The batch.
            now: The broker's time (ms).
            marker: The marker in it, if it is a control batch.

        Returns:
            The transaction that the marker aborted, for the transaction index, or None.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = ProducerStateEntry(
                header.producer_id, header.producer_epoch
            )
        # Sequence numbers restart at 0 in each epoch, so batches of the previous epoch must not match as duplicates.
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_seen = now
        # Only DescribeProducers and snapshots need this. Expiry uses ``last_seen``.
        producer.last_timestamp = header.max_timestamp
        if marker is not None:
            producer.coordinator_epoch = marker.coordinator_epoch
            return self._ended(header, marker)
        if header.base_sequence >= 0:
            producer.batches.append(
                BatchMetadata(
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp,
                )
            )
        if header.attributes & TRANSACTIONAL:
            self._open.setdefault(header.producer_id, header.base_offset)
        return None

    def _ended(self, header: BatchHeader, marker: EndTransaction) -> AbortedTxn | None:
        first_offset = self._open.pop(header.producer_id, None)
        # If the producer doesn't have an open transaction here, the marker doesn't abort any records.
        if first_offset is None or marker.committed:
            return None
        # This is the last stable offset once this transaction has ended, as in ProducerStateManager.lastStableOffset.
        # Readers that stop before it don't need later entries of the index.
        unstable = self.first_unstable_offset
        return AbortedTxn(
            producer_id=header.producer_id,
            first_offset=first_offset,
            last_offset=header.last_offset,
            last_stable_offset=header.last_offset + 1 if unstable is None else unstable,
        )

    def expire(self, before: int) -> None:
        """Remove producers that haven't written anything since ``before`` (ms), unless they have an open
        transaction."""
        # The marker of an open transaction must find the transaction's start. Otherwise the last stable offset couldn't
        # advance correctly.
        late = [producer for producer in self if producer.last_seen < before and producer.producer_id not in self._open]
        for producer in late:
            del self._producers[producer.producer_id]

    # ---- snapshots

    def snapshot(self) -> list[ProducerEntry]:
        """Return the entries of a snapshot: each producer with its last batch."""
        return [self._entry(producer) for producer in self]

    def _entry(self, producer: ProducerStateEntry) -> ProducerEntry:
        newest = producer.batches[-1] if producer.batches else BatchMetadata(-1, -1, -1, -1, -1)
        return ProducerEntry(
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            last_sequence=newest.last_sequence,
            last_offset=newest.last_offset,
            offset_delta=newest.last_offset - newest.base_offset,
            timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_first_offset=self._open.get(producer.producer_id, -1),
        )

    def restore(self, entries: Iterable[ProducerEntry], now: int) -> None:
        """Replace the state with a snapshot. The producers count as last seen at ``now`` (ms)."""
        self._producers.clear()
        self._open.clear()
        opened: list[tuple[int, int]] = []
        for entry in entries:
            # The time to expiry restarts, because the snapshot contains only record timestamps, which come from the
            # producer.
            producer = ProducerStateEntry(
                entry.producer_id,
                entry.epoch,
                last_seen=now,
                last_timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
            )
            self._producers[entry.producer_id] = producer
            if entry.last_sequence >= 0:
                producer.batches.append(
                    BatchMetadata(
                        (entry.last_sequence - entry.offset_delta) & _SEQUENCES,
                        entry.last_sequence,
                        entry.last_offset - entry.offset_delta,
                        entry.last_offset,
                        entry.timestamp,
                    )
                )
            if entry.current_txn_first_offset >= 0:
                opened.append((entry.current_txn_first_offset, entry.producer_id))
        self._open = {producer_id: offset for offset, producer_id in sorted(opened)}


def _in_sequence(producer: ProducerStateEntry, header: BatchHeader) -> BatchMetadata | None:
    """Return the batch that this one repeats, or None if it's the next in sequence."""
    # A new epoch starts at sequence 0, even if only the marker that started it is in the log.
    if header.producer_epoch > producer.epoch or not producer.batches:
        expected = 0
    else:
        for batch in producer.batches:
            # Both ends must match, as in Kafka: records that were batched differently aren't a retry of the same
            # request.
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        expected = (producer.batches[-1].last_sequence + 1) & _SEQUENCES
    if header.base_sequence != expected:
        raise BrokerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            detail=f"producer {header.producer_id} is at sequence {expected}, not {header.base_sequence}",
        )
    return None
