"""Resolves the regular expressions of a group to topics, in slices of bounded work.

A pattern of the worst kind takes a quarter of a second for each topic name, and members may have as many patterns as
they like. No other connection may wait for that. The matches of a pattern are kept, so that a new topic costs one name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple

from aiokproto.broker.patterns import compile_pattern

MAX_PATTERNS = 100
"""The most regular expressions of a group: each has a list of topics, in memory and in the group's records."""

SLICE = 20_000
"""The work of one slice, in the units of :meth:`Pattern.matching`: some milliseconds. It's enough for 1000 topics with
names of 20 characters."""

_PERMISSION_COST = 50
_NAME_COST = 2

_Matches = dict[str, frozenset[str]]


class _Known(NamedTuple):
    """The result of a pattern so far: the topics that were tried, and those that match."""

    tried: frozenset[str]
    matched: frozenset[str]


_NOTHING = _Known(frozenset(), frozenset())


class Resolution:
    """The results of a group's patterns, and the resolution that is under way."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._steps: Generator[int, None, _Matches] | None = None

    @property
    def under_way(self) -> bool:
        """Whether :meth:`advance` has something to do."""
        return self._steps is not None

    def knows(self, pattern: str) -> bool:
        """Return whether a pattern was resolved."""
        return pattern in self._known

    def keep(self, patterns: Iterable[str]) -> None:
        """Forget all other patterns."""
        self._known = {pattern: self._known[pattern] for pattern in patterns if pattern in self._known}

    def start(self, patterns: Iterable[str], existing: frozenset[str], describable: Callable[[str], bool]) -> None:
        """Start to resolve patterns. The caller has checked that they compile.

        Args:
            patterns: The patterns.
            existing: The names of all topics.
            describable: Returns whether a topic that matches may be named.
        """
        self._steps = self._resolve(sorted(patterns), existing, describable)

    def advance(self) -> Mapping[str, frozenset[str]] | None:
        """Do one slice. Return the topics of each pattern after the last slice, and None before."""
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
