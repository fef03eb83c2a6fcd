"""How long to wait before trying again (pure; the only place it is computed)."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2
"""Each wait differs by up to this fraction, so that clients which failed together do not come back together."""


class Backoff:
    """Exponential from ``initial`` to ``maximum`` seconds; ``uniform`` is where the jitter comes from."""

    def __init__(self, initial: float, maximum: float, uniform: Callable[[float, float], float]) -> None:
        self._initial = initial
        self._maximum = maximum
        self._uniform = uniform

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row; none after none."""
        if failures < 1:
            return 0.0
        # The exponent is bounded since a client may fail for months, and 2.0 ** 1024 overflows.
        base = min(self._maximum, self._initial * 2.0 ** min(failures - 1, 32))
        return base * self._uniform(1 - JITTER, 1 + JITTER)
