"""How much a batch of a stream reads: ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``, ``maxTriggerDelay``. Pure.

The limits count offsets, as in Spark's own connector: markers of transactions, aborted and compacted records count,
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from aiokproto.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


def divide(begins: Offsets, ends: Offsets, limit: int) -> dict[TopicPartition, int]:
    """Return ends with about ``limit`` offsets between, divided in proportion to how many each partition has.

    A partition that has any gets at least one, so none starves; up to one more for each partition than the limit.

    Args:
        begins: Where the batch begins in each partition of ``ends``.
        ends: Where the partitions end now.
        limit: The number of offsets, at least 1.
    """
    sizes = {one: max(end - begins[one], 0) for one, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    shares = {one: limit * size / total for one, size in sizes.items()}
    return {
        one: begins[one] + min(sizes[one], ceil(share) if share < 1 else int(share)) for one, share in shares.items()
    }


class Patience:
    """Decides whether a stream waits for more records: up to ``minOffsetsPerTrigger``, for ``maxTriggerDelay``.

    Args:
        least: The fewest offsets of a batch.
        delay: How long it may wait for them (s).
    """

    def __init__(self, least: int, delay: float) -> None:
        self._least = least
        self._delay = delay
        self._last: float | None = None

    def waits(self, count: int, now: float) -> bool:
        """Return whether ``count`` offsets are too few yet. The first batch never waits, as in Spark's connector."""
        if self._last is not None and count < self._least and now - self._last < self._delay:
            return True
        self._last = now
        return False
