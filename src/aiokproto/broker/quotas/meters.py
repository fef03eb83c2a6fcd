"""How fast something happens: a rate over sliding windows, and a bucket of tokens. As Kafka reckons."""

from __future__ import annotations

from collections import deque


class Rate:
    """The average per second, over the windows of the near past."""

    def __init__(self, windows: int, seconds: float) -> None:
        """Begin.

        Args:
            windows: How many windows are looked back over, the current one included.
            seconds: How long each is.
        """
        self._windows = windows
        self._seconds = seconds
        self._samples: deque[tuple[float, float]] = deque()

    def record(self, value: float, now: float) -> None:
        """Count ``value`` in; a negative one takes back what was counted."""
        if not self._samples or now - self._samples[-1][0] >= self._seconds:
            self._samples.append((now, 0.0))
        begun, total = self._samples.pop()
        self._samples.append((begun, total + value))

    def measure(self, now: float) -> float:
        """The rate now."""
        span = self.span(now)
        return sum(total for _, total in self._samples) / span

    def span(self, now: float) -> float:
        """The seconds that the rate is the average of."""
        while self._samples and now - self._samples[0][0] >= self._windows * self._seconds:
            self._samples.popleft()
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        # As if the windows before the first had been quiet: else whatever comes first would be far too fast.
        missing = max(self._windows - 1 - int(elapsed / self._seconds), 0)
        return elapsed + missing * self._seconds or self._seconds

    def excess(self, limit: float, now: float) -> float:
        """For how many seconds nothing may happen, for the rate to come down to the limit; 0: it is not above."""
        rate = self.measure(now)
        return (rate - limit) / limit * self.span(now) if rate > limit else 0.0


class TokenBucket:
    """A stock that fills at the permitted rate, up to a burst; it can be overdrawn."""

    def __init__(self, windows: int, seconds: float) -> None:
        """Begin full; a full stock is what ``windows`` of ``seconds`` each may take."""
        self._burst_seconds = windows * seconds
        self._taken = 0.0
        self._when = 0.0

    def record(self, value: float, limit: float, now: float) -> None:
        """Take ``value`` out."""
        self._refill(limit, now)
        self._taken += value

    def excess(self, limit: float, now: float) -> float:
        """For how many seconds nothing may be taken; 0: there is something."""
        self._refill(limit, now)
        return max(self._taken / limit - self._burst_seconds, 0.0)

    def _refill(self, limit: float, now: float) -> None:
        self._taken = max(self._taken - limit * (now - self._when), 0.0)
        self._when = now
