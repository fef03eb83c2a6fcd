"""Resolves a group's regular expressions to topics, in slices of limited work.

A worst-case pattern takes a quarter of a second for each topic name, and each member can have its own pattern. Other
connections must not wait for that. The matches of each pattern are cached, so a new topic costs only one more name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple

from aiokproto.broker.patterns import compile_pattern

MAX_PATTERNS = 100
"""Maximum number of regular expressions in a group: each comes with a list of topics, in memory and in the group's
records."""

SLICE = 20_000
"""The size of a slice, in the units of :meth:`Pattern.matching`. It takes a few milliseconds, and is enough for 1000
topics with names of 20 characters."""

_PERMISSION_COST = 50
_NAME_COST = 2

_Matches = dict[str, frozenset[str]]


class _Known(NamedTuple):
    """A pattern's result so far: the topics that were tried, and those that matched."""

    tried: frozenset[str]
    matched: frozenset[str]


_NOTHING = _Known(frozenset(), frozenset())


class Resolution:
    """The results of a group's patterns, and the resolution in progress."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._steps: Generator[int, None, _Matches] | None = None

    @property
    def under_way(self) -> bool:
        """Whether :meth:`advance` has something to do."""
        return self._steps is not None

    def knows(self, pattern: str) -> bool:
        """Return whether a pattern has been resolved."""
        return pattern in self._known

    def keep(self, patterns: Iterable[str]) -> None:
        """Forget all other patterns."""
        self._known = {pattern: self._known[pattern] for pattern in patterns if pattern in self._known}

    def start(self, patterns: Iterable[str], existing: frozenset[str], describable: Callable[[str], bool]) -> None:
        """Start resolving patterns. The caller has checked that they compile.

        Args:
            patterns: The patterns.
            existing: The names of all topics.
            describable: Returns whether a matching topic may be disclosed.
        """
        self._steps = self._resolve(sorted(patterns), existing, describable)

    def advance(self) -> Mapping[str, frozenset[str]] | None:
        """Do one slice. After the last slice, return the topics of each pattern; before that, None."""
        assert self._steps is not None, "start() was called"
        left = SLICE
        try:
            while left > 0:
                left -= next(self._steps)
        except StopIteration as end:
            self._steps = None
            found: _Matches = end.value
            return found
        return None

    def _resolve(
        self, patterns: Iterable[str], existing: frozenset[str], describable: Callable[[str], bool]
    ) -> Generator[int, None, _Matches]:
        found = {}
        for text in patterns:
            before = self._known.get(text, _NOTHING)
            matched = set(before.matched & existing)
            pattern = compile_pattern(text)
            for name in existing - before.tried:
                yield _NAME_COST
                if (yield from pattern.matching(name)):
                    matched.add(name)
            self._known[text] = _Known(existing, frozenset(matched))
            permitted = set()
            for name in matched:
                yield _PERMISSION_COST
                if describable(name):
                    permitted.add(name)
            found[text] = frozenset(permitted)
        return found
