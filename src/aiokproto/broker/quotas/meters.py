"""Usage meters: a rate over sliding windows, and a token bucket, with the same arithmetic as Kafka's Rate and
TokenBucket."""

from __future__ import annotations

from collections import deque


class Rate:
    """The average rate per second over the last windows."""

    def __init__(self, windows: int, seconds: float) -> None:
        """Create a meter without usage.

        Args:
            windows: The number of windows, including the current one.
            seconds: The length of a window.
        """
        self._windows = windows
        self._seconds = seconds
        self._samples: deque[tuple[float, float]] = deque()

    def record(self, value: float, now: float) -> None:
        """Record usage. A negative value undoes recorded usage."""
        if not self._samples or now - self._samples[-1][0] >= self._seconds:
            self._samples.append((now, 0.0))
        # The value belongs to the current window, even if it undoes an earlier value.
        start, total = self._samples.pop()
        self._samples.append((start, total + value))

    def measure(self, now: float) -> float:
        """Return the current rate."""
        span = self.span(now)
        return sum(total for _, total in self._samples) / span

    def span(self, now: float) -> float:
        """Return the number of seconds that the rate is averaged over."""
        # Kafka's SampledStat purges obsolete samples the same way.
        while self._samples and now - self._samples[0][0] >= self._windows * self._seconds:
            self._samples.popleft()
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        # Windows before the first sample count as idle. Otherwise a client's first request would exceed any quota.
        missing = max(self._windows - 1 - int(elapsed / self._seconds), 0)
        return elapsed + missing * self._seconds or self._seconds

    def excess(self, limit: float, now: float) -> float:
        """Return how many seconds without usage it takes for the rate to drop to the limit; 0 if it isn't above the
        limit."""
        rate = self.measure(now)
        # Kafka's QuotaUtils.throttleTime(): with a span W, (rate - limit) / limit * W seconds of silence bring the
        # average to the limit.
        return (rate - limit) / limit * self.span(now) if rate > limit else 0.0


class TokenBucket:
    """A token bucket that fills at the quota's rate, up to a burst (KIP-599). A request can overdraw the bucket; the
    next request has to wait."""

    def __init__(self, windows: int, seconds: float) -> None:
        """Start full. The burst is the quota of ``windows`` windows of ``seconds`` each."""
        self._burst_seconds = windows * seconds
        self._taken = 0.0
        self._when = 0.0

    def record(self, value: float, limit: float, now: float) -> None:
        """Take tokens out."""
        self._refill(limit, now)
        self._taken += value

    def excess(self, limit: float, now: float) -> float:
        """Return how many seconds it takes until the bucket has tokens again, or 0 if it has any."""
        self._refill(limit, now)
        return max(self._taken / limit - self._burst_seconds, 0.0)

    def _refill(self, limit: float, now: float) -> None:
        # Keep track of the tokens taken rather than the tokens left, so a new limit applies to the refill immediately.
        self._taken = max(self._taken - limit * (now - self._when), 0.0)
        self._when = now
