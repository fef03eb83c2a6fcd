"""Who wrote what last: how a log tells a repeated batch from a new one (KIP-98)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from aiokproto.broker.log.header import BatchHeader
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

WINDOW = 5
"""Batches remembered for each producer: it may have that many requests in flight to a partition."""


class Remembered(NamedTuple):
    """A batch that was appended."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """Greatest timestamp in it (ms)."""


class _Producer:
    __slots__ = ("batches", "epoch", "last_seen")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[Remembered] = deque(maxlen=WINDOW)
        self.last_seen = -1


class ProducerStates:
    """The idempotent producers of one log."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def check(self, header: BatchHeader) -> Remembered | None:
        """Whether the batch may be appended; the batch it repeats, if it does.

        Raises:
            BrokerError: INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER.
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
        if header.producer_epoch > producer.epoch:
            expected = 0
        else:
            for batch in producer.batches:
                if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                    return batch
            expected = (producer.batches[-1].last_sequence + 1) & 0x7FFFFFFF
        if header.base_sequence != expected:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                detail=f"producer {header.producer_id} is at sequence {expected}, not {header.base_sequence}",
            )
        return None

    def appended(self, header: BatchHeader, now: int) -> None:
        """Take note of a batch in the log. ``now`` (ms) is the broker's time: what producers stamp may be anything."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        producer.batches.append(
            Remembered(
                header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
            )
        )
        producer.last_seen = now

    def expire(self, before: int) -> None:
        """Forget producers that wrote nothing since ``before`` (ms)."""
        for producer_id in [pid for pid, producer in self._producers.items() if producer.last_seen < before]:
            del self._producers[producer_id]
