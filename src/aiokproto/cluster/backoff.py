"""Exponential backoff with jitter: how long to wait before a retry (pure; KIP-580). Computed nowhere else."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2
"""Each wait varies by up to this fraction, as in Java: clients that failed together must not retry together."""


class Backoff:
    """Doubles from ``initial`` to ``maximum`` seconds. ``uniform(low, high)`` supplies the jitter."""

    def __init__(self, initial: float, maximum: float, uniform: Callable[[float, float], float]) -> None:
        self._initial = initial
        self._maximum = maximum
        self._uniform = uniform

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after that many failures in a row; 0.0 after none."""
        if failures < 1:
            return 0.0
        # The exponent is bounded because a client may fail for months, and 2.0 ** 1024 overflows.
        base = min(self._maximum, self._initial * 2.0 ** min(failures - 1, 32))
        return base * self._uniform(1 - JITTER, 1 + JITTER)
