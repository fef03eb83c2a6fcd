"""Limits on a producer's buffer and its batches. Pure.

A batch is compressed when it's sent, so its final size is unknown while records are appended. As in the Java client,
it's estimated from earlier batches of the same topic. The estimate rises at once after a batch that compresses badly,
and falls slowly. A batch never grows beyond what a request can hold without compression. So a wrong estimate can make a
batch larger than ``batch_size``, but never too large to send.
"""

from __future__ import annotations

from typing import NamedTuple

BATCH_OVERHEAD = 61
"""Bytes of a record batch's header (magic 2)."""
_MARGIN = 1.05
"""A safety margin: the batches of one topic differ."""
_FALL = 0.1
"""How far one batch moves the estimate toward a lower ratio."""


class BufferLimits(NamedTuple):
    """The accumulator's limits. Sizes are in bytes before compression unless noted, times in seconds.

    Attributes:
        batch_size: Maximum size of a batch, after compression. A larger record gets a batch to itself.
        buffer_memory: Maximum bytes in all batches together.
        max_request_size: Maximum size of a record, and of all batches in a request.
        linger: How long a batch waits for more records.
        delivery_timeout: Maximum time from a batch's first record to its acknowledgement.
        in_flight: Maximum batches in flight per partition.
    """

    batch_size: int
    buffer_memory: int
    max_request_size: int
    linger: float
    delivery_timeout: float
    in_flight: int


class BatchSizes:
    """The maximum size of a topic's batches before compression."""

    def __init__(self, limits: BufferLimits) -> None:
        self._limits = limits
        # Both are empty without compression.
        self._ratios: dict[str, float] = {}
        self._most: dict[str, int] = {}

    def most(self, topic: str) -> int:
        """Return the size at which a batch of a topic is full, in bytes before compression."""
        return self._most.get(topic, self._limits.batch_size)

    def written(self, topic: str, before: int, after: int) -> None:
        """Update the estimate from a batch with these sizes before and after compression."""
        limits = self._limits
        # Small batches compress worse than batches large enough for the limit to matter.
        if before < max(limits.batch_size // 2, 2 * BATCH_OVERHEAD):
            return
        seen, expected = (after - BATCH_OVERHEAD) / (before - BATCH_OVERHEAD), self._ratios.get(topic, 1.0)
        ratio = seen if seen > expected else expected + _FALL * (seen - expected)
        self._ratios[topic] = ratio
        filling = BATCH_OVERHEAD + int((limits.batch_size - BATCH_OVERHEAD) / (_MARGIN * ratio))
        largest = min(limits.max_request_size, limits.buffer_memory)
        self._most[topic] = max(min(filling, largest), limits.batch_size)

    def too_large(self, topic: str) -> None:
        """Start over after a broker has refused a batch for its size."""
        self.forget(topic)

    def forget(self, topic: str) -> None:
        """Forget the estimate for a topic."""
        self._ratios.pop(topic, None)
        self._most.pop(topic, None)
