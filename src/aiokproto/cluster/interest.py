"""Which topics are kept up to date (pure, the clock is passed in)."""

from __future__ import annotations

from collections.abc import Iterable


class Interest:
    """The topics that were asked for: those that stay, and those that are forgotten after a time without use.

    Args:
        idle: Seconds without use after which a topic is forgotten.
    """

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._kept: set[str] = set()
        self._used: dict[str, float] = {}

    def add(self, names: Iterable[str], keep: bool, now: float) -> None:
        """They are asked for. With ``keep`` they stay, also if they were, or will be, asked for without it."""
        for name in names:
            if keep:
                self._kept.add(name)
                self._used.pop(name, None)
            elif name not in self._kept:
                self._used[name] = now

    def touch(self, name: str, now: float) -> None:
        """It is in use."""
        if name in self._used:
            self._used[name] = now

    def forget_idle(self, now: float) -> list[str]:
        """The topics that nobody has used for too long, which are then of no interest any more."""
        idle = [name for name, used in self._used.items() if now - used >= self._idle]
        for name in idle:
            del self._used[name]
        return idle
