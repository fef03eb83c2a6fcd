"""Exponential backoff with jitter: how long to wait before a retry (pure; KIP-580). Every backoff is computed here."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2
"""Each wait varies by up to this fraction, as in Java, so clients that failed together don't retry together."""


class Backoff:
    """Doubles from ``initial`` to ``maximum`` seconds. ``uniform(low, high)`` supplies the jitter."""

    def __init__(self, initial: float, maximum: float, uniform: Callable[[float, float], float]) -> None:
        self._initial = initial
        self._maximum = maximum
        self._uniform = uniform

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after that many consecutive failures; 0.0 if there are none."""
        if failures < 1:
            return 0.0
        # Cap the exponent: a client may fail for months, and 2.0 ** 1024 overflows.
        base = min(self._maximum, self._initial * 2.0 ** min(failures - 1, 32))
        return base * self._uniform(1 - JITTER, 1 + JITTER)
