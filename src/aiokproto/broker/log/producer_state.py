"""Who wrote what last: how a log tells a repeated batch from a new one, and which transactions are open (KIP-98)."""

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
"""Batches remembered for each producer: it may have that many requests in flight to a partition."""

_SEQUENCES = 0x7FFFFFFF
"""Sequences go on from 0 after this one."""


class BatchMetadata(NamedTuple):
    """A batch that was appended."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """Greatest timestamp in it (ms)."""


@dataclass(slots=True)
class ProducerStateEntry:
    """What a log knows of a producer.

    Attributes:
        producer_id: Its id.
        epoch: Its newest epoch seen here.
        batches: The newest batches of that epoch; none directly after a marker that began the epoch.
        last_seen: When it wrote last (ms), by the broker's clock: what producers stamp may be anything.
        last_timestamp: Greatest timestamp (ms) of its newest batch or marker; -1 if there is none.
        coordinator_epoch: Epoch of the coordinator that ended its last transaction here; -1 if there was none.
    """

    producer_id: int
    epoch: int
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_RETAINED))
    last_seen: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """Sequence of its last record, -1 if there is none in its epoch."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStateManager:
    """The idempotent and transactional producers of one log."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerStateEntry] = {}
        # By producer id: the first offset of its open transaction. In the order of these offsets, as they come.
        self._open: dict[int, int] = {}

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._producers.values())

    # ---- transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins; None if none is open."""
        return next(iter(self._open.values()), None)

    def transaction_start(self, producer_id: int) -> int | None:
        """Where the producer's open transaction begins; None if it has none."""
        return self._open.get(producer_id)

    def knows(self, producer_id: int) -> bool:
        """Whether there is anything of the producer in the log, or was not long ago."""
        return producer_id in self._producers

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open in this epoch."""
        return producer_id in self._open and self._producers[producer_id].epoch == epoch

    # ---- what comes

    def check(self, header: BatchHeader, marker: EndTransaction | None = None) -> BatchMetadata | None:
        """Whether a producer's batch, or a marker that ends its transaction, may be appended; the batch it repeats.

        Raises:
            BrokerError: INVALID_PRODUCER_EPOCH; of a batch OUT_OF_ORDER_SEQUENCE_NUMBER, or INVALID_TXN_STATE if it is
                none of the open transaction; of a marker TRANSACTION_COORDINATOR_FENCED.
        """
        producer = self._producers.get(header.producer_id)
        # An unknown producer may begin anywhere: retention may have removed all it wrote before (KIP-360).
        if producer is None:
            return None
        if header.producer_epoch < producer.epoch:
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                detail=f"producer {header.producer_id} has epoch {producer.epoch}, not {header.producer_epoch}",
            )
        if marker is not None:
            if marker.coordinator_epoch < producer.coordinator_epoch:
                raise BrokerError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    detail=f"coordinator epoch {marker.coordinator_epoch}, known is {producer.coordinator_epoch}",
                )
            return None
        # Offsets that a coordinator writes in a producer's transaction have no sequence.
        known = _in_sequence(producer, header) if header.base_sequence >= 0 else None
        if known is None and header.producer_id in self._open and not header.attributes & TRANSACTIONAL:
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE,
                detail=f"producer {header.producer_id} has an open transaction, and this batch is none of it",
            )
        return known

    def appended(self, header: BatchHeader, now: int, marker: EndTransaction | None = None) -> AbortedTxn | None:
        """Take note of a producer's batch in the log, or of the marker that ends its transaction.

        Args:
            header: The batch.
            now: The broker's time (ms).
            marker: What it says, if it is a marker.

        Returns:
            The transaction, if it was aborted by this.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = ProducerStateEntry(
                header.producer_id, header.producer_epoch
            )
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_seen = now
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
        begun = self._open.pop(header.producer_id, None)
        # A marker of a transaction that wrote nothing here says nothing to readers.
        if begun is None or marker.committed:
            return None
        unstable = self.first_unstable_offset
        return AbortedTxn(
            producer_id=header.producer_id,
            first_offset=begun,
            last_offset=header.last_offset,
            last_stable_offset=header.last_offset + 1 if unstable is None else unstable,
        )

    def expire(self, before: int) -> None:
        """Forget producers that wrote nothing since ``before`` (ms), save for those with an open transaction."""
        late = [producer for producer in self if producer.last_seen < before and producer.producer_id not in self._open]
        for producer in late:
            del self._producers[producer.producer_id]

    # ---- as Kafka's snapshot files have it

    def snapshot(self) -> list[ProducerEntry]:
        """The producers, each with its newest batch."""
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
        """Become what a snapshot says; ``now`` (ms) counts as the time when the producers were last seen."""
        self._producers.clear()
        self._open.clear()
        opened: list[tuple[int, int]] = []
        for entry in entries:
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
    """The batch that is repeated, or None for the one that is next."""
    if header.producer_epoch > producer.epoch or not producer.batches:
        expected = 0
    else:
        for batch in producer.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        expected = (producer.batches[-1].last_sequence + 1) & _SEQUENCES
    if header.base_sequence != expected:
        raise BrokerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            detail=f"producer {header.producer_id} is at sequence {expected}, not {header.base_sequence}",
        )
    return None
