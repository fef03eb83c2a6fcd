"""Which topics a metadata refresh requests (pure; the clock is passed in)."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class TrackedTopics:
    """The topics in the metadata: permanent ones (``keep``), and those that expire when they are not used.

    As Java's ``ProducerMetadata``: a producer that has written to a million topics must not request all for ever.
    """

    def __init__(self, idle: float, last_used: Callable[[str], float]) -> None:
        """Start without topics.

        Args:
            idle: Seconds without use after which a topic expires (``metadata_max_idle_ms``).
            last_used: Returns when a topic was last used (s); called before it expires.
        """
        self._idle = idle
        self._last_used = last_used
        self._kept: set[str] = set()
        self._requested_at: dict[str, float] = {}

    def add(self, names: Iterable[str], keep: bool, now: float) -> None:
        """Track topics that a caller requested. One that was ever added with ``keep`` never expires."""
        for name in names:
            if keep:
                # For ever: a consumer that subscribed to it does not ask again.
                self._kept.add(name)
                self._requested_at.pop(name, None)
            elif name not in self._kept:
                self._requested_at[name] = now

    def expire_idle(self, now: float) -> list[str]:
        """Stop tracking the topics that were not used for too long, and return them."""
        idle = [
            name
            for name, requested in self._requested_at.items()
            # Asked now and not noted per record: sending must not touch this dict.
            if now - max(requested, self._last_used(name)) >= self._idle
        ]
        for name in idle:
            del self._requested_at[name]
        return idle
