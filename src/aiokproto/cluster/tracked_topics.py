"""Which topics a metadata refresh requests (pure; the clock is passed in)."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class TrackedTopics:
    """The topics in the metadata: permanent ones (``keep``), and ones that expire when they are not used.

    As in Java's ``ProducerMetadata``, a producer that has written to a million topics must not request all of them
    forever. A permanent topic that doesn't exist (any more) expires, too, unless it's found again before that.
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
        # Permanent topics that don't exist → when that was noticed, or when a caller last requested the topic (s).
        self._lost: dict[str, float] = {}

    def add(self, names: Iterable[str], keep: bool, now: float) -> None:
        """Track topics that a caller requested.

        A topic that was ever added with ``keep`` doesn't expire while it exists.
        """
        for name in names:
            if name in self._lost:
                self._lost[name] = now
            elif keep:
                # Keep it forever: a consumer that has subscribed to it doesn't request it again.
                self._kept.add(name)
                self._requested_at.pop(name, None)
            elif name not in self._kept:
                self._requested_at[name] = now

    def lost(self, names: Iterable[str], now: float) -> None:
        """Note that topics do not exist."""
        for name in names:
            if name in self._kept:
                self._kept.remove(name)
                self._lost[name] = now

    def found(self, name: str) -> None:
        """Note that a topic exists."""
        if self._lost.pop(name, None) is not None:
            self._kept.add(name)

    def expire_idle(self, now: float) -> list[str]:
        """Stop tracking the topics that have not been used for too long, and return them."""
        expired: list[str] = []
        for since in (self._requested_at, self._lost):
            # Look up the last use only now, instead of recording each use here: sending must not touch these dicts.
            idle = [
                name
                for name, requested in since.items()
                if now - requested >= self._idle and now - self._last_used(name) >= self._idle
            ]
            for name in idle:
                del since[name]
            expired += idle
        return expired
