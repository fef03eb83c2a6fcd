"""Which topics are kept up to date (pure, the clock is passed in)."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class TrackedTopics:
    """The topics that were asked for: those that stay, and those that are forgotten after a time without use."""

    def __init__(self, idle: float, last_used: Callable[[str], float]) -> None:
        """Begin without any.

        Args:
            idle: Seconds without use after which a topic is forgotten.
            last_used: When a topic was last used; asked before it is forgotten.
        """
        self._idle = idle
        self._last_used = last_used
        self._kept: set[str] = set()
        self._asked: dict[str, float] = {}

    def add(self, names: Iterable[str], keep: bool, now: float) -> None:
        """They are asked for. With ``keep`` they stay, also if they were, or will be, asked for without it."""
        for name in names:
            if keep:
                self._kept.add(name)
                self._asked.pop(name, None)
            elif name not in self._kept:
                self._asked[name] = now

    def forget_idle(self, now: float) -> list[str]:
        """The topics that nobody has used for too long, which are then of no interest any more."""
        idle = [name for name, asked in self._asked.items() if now - max(asked, self._last_used(name)) >= self._idle]
        for name in idle:
            del self._asked[name]
        return idle
