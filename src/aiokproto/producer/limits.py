"""What bounds a producer's buffer and its batches. Pure.

A batch is compressed when it's sent, so nobody knows its final size while records are appended. As in the Java client,
it's estimated from the batches of the same topic that were written before. The estimate rises at once with a batch that
compresses badly, and falls slowly. A batch never gets more than a request can hold without compression, so a wrong
estimate makes batches larger than ``batch_size``, but none that can't be sent.
"""

from __future__ import annotations

from typing import NamedTuple

BATCH_OVERHEAD = 61
"""Bytes of a record batch's header (magic 2)."""
_MARGIN = 1.05
"""A reserve, because the batches of one topic differ."""
_FALL = 0.1
"""How far one batch moves the estimate towards a lower ratio."""


class BufferLimits(NamedTuple):
    """What bounds the accumulator. Other sizes are in bytes before compression, times in seconds.

    Attributes:
        batch_size: Largest batch, after compression. A larger record gets a batch to itself.
        buffer_memory: Most bytes in all batches together.
        max_request_size: Largest record, and largest sum of batches in a request.
        linger: How long a batch waits for more records.
        delivery_timeout: Longest time from a batch's first record to its acknowledgement.
        in_flight: Most batches of a partition in flight.
    """

    batch_size: int
    buffer_memory: int
    max_request_size: int
    linger: float
    delivery_timeout: float
    in_flight: int


class BatchSizes:
    """The most bytes that a batch may have before it is compressed, by topic."""

    def __init__(self, limits: BufferLimits) -> None:
        self._limits = limits
        # Both are empty without compression.
        self._ratios: dict[str, float] = {}
        self._most: dict[str, int] = {}

    def most(self, topic: str) -> int:
        """Return the size at which a batch of a topic is full, in bytes before compression."""
        return self._most.get(topic, self._limits.batch_size)

    def written(self, topic: str, before: int, after: int) -> None:
        """Learn from a batch that had these bytes before and after it was compressed."""
        limits = self._limits
        # Small batches compress worse than those whose size has to be bounded.
        if before < max(limits.batch_size // 2, 2 * BATCH_OVERHEAD):
            return
        seen, expected = (after - BATCH_OVERHEAD) / (before - BATCH_OVERHEAD), self._ratios.get(topic, 1.0)
        ratio = seen if seen > expected else expected + _FALL * (seen - expected)
        self._ratios[topic] = ratio
        filling = BATCH_OVERHEAD + int((limits.batch_size - BATCH_OVERHEAD) / (_MARGIN * ratio))
        largest = min(limits.max_request_size, limits.buffer_memory)
        self._most[topic] = max(min(filling, largest), limits.batch_size)

    def too_large(self, topic: str) -> None:
        """Start again, because a broker has refused a batch for its size."""
        self.forget(topic)

    def forget(self, topic: str) -> None:
        """Forget what was learned of a topic."""
        self._ratios.pop(topic, None)
        self._most.pop(topic, None)
