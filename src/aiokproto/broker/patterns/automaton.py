"""Matches a text against a pattern, in time proportional to at most the product of their sizes.

Theory of operation. The syntax tree is compiled to a nondeterministic automaton (Thompson's construction): states that
read one character of a set, and states that read nothing. Matching simulates all states at once, so it visits each
state at most once per character. The transitions between sets of states are cached, which lazily builds the part of the
deterministic automaton that is in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from aiokproto.broker.patterns.charset import PERL, Charset, spans
from aiokproto.broker.patterns.syntax import Assertion, Chars, Choice, Node, PatternError, Repeat, Sequence, parse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

MAX_LENGTH = 1024
"""Maximum length of a pattern, in characters."""
MAX_SIZE = 1500
"""Maximum number of parts of a pattern. A repeated part counts once per repetition."""
_MAX_CACHED_STATES = 20_000
"""Maximum number of states in all cached sets of a pattern. Above this, the cache is cleared."""

_TURN = 20_000
"""The cost after which matching yields: a few milliseconds."""

_WORD = Charset(spans(PERL["w"]))
_MATCH = 0
"""The accepting state."""


class _Side(IntEnum):
    """The class of the character next to a position, for assertions."""

    EDGE = 0
    NEWLINE = 1
    WORD = 2
    OTHER = 3


class _State(NamedTuple):
    """A state: the character set that it reads or the assertion that it requires, and its successors."""

    reads: Charset | None
    needs: Assertion | None
    exits: tuple[int, ...]


_States = frozenset[int]


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        """Compile a pattern.

        Raises:
            PatternError: The pattern is invalid or too large.
        """
        if len(text) > MAX_LENGTH:
            raise PatternError(f"a pattern of {len(text)} characters; the limit is {MAX_LENGTH}")
        builder = _Builder()
        self._start: _States = frozenset({builder.build(parse(text), _MATCH)})
        self._states = builder.states
        # The maximum cost of an uncached step, which looks at each state and each part of a set once.
        self._step_cost = len(self._states) + len(text)
        self._transitions: dict[tuple[_States, str, _Side], _States] = {}
        self._weight = 0

    def fullmatch(self, text: str) -> bool:
        """Return whether the whole text matches."""
        matching = self.matching(text)
        while True:
            try:
                next(matching)
            except StopIteration as found:
                return bool(found.value)

    async def fullmatch_in_turns(self, text: str) -> bool:
        """Like :meth:`fullmatch`, but yield to other tasks every few milliseconds."""
        matching = self.matching(text)
        left = _TURN
        while True:
            try:
                left -= next(matching)
            except StopIteration as found:
                return bool(found.value)
            if left <= 0:
                left = _TURN
                await asyncio.sleep(0)

    def matching(self, text: str) -> Generator[int, None, bool]:
        """Like :meth:`fullmatch`, but in steps: the worst pattern takes a quarter of a second to match a topic name.

        Yields:
            The cost of each step. A million units take less than a second.
        """
        sides = [*map(_side, text), _Side.EDGE]
        states = self._start
        for char, after in zip(("", *text), sides, strict=True):
            # If there are no states left, no continuation of the text can match.
            if not states:
                return False
            known = self._transitions.get((states, char, after))
            if known is None:
                known = self._follow(states, char, after)
                yield self._step_cost
            else:
                yield 1
            states = known
        return _MATCH in states

    def _follow(self, states: _States, char: str, after: _Side) -> _States:
        """Return the states after a character, given the class of the next character. At the start, ``char`` is
        empty."""
        known = self._closure(self._read(states, char), _side(char), after)
        self._weight += 1 + len(known)
        if self._weight > _MAX_CACHED_STATES:
            self._transitions.clear()
            self._weight = 0
        self._transitions[states, char, after] = known
        return known

    def _read(self, states: _States, char: str) -> _States:
        if not char:
            return states
        # Repeated parts share their set. Without this, (\pL{1000}) would look up the category of one character 1000
        # times.
        holds: dict[int, bool] = {}
        found: set[int] = set()
        for number in states:
            charset, _, exits = self._states[number]
            if charset is not None:
                if (key := id(charset)) not in holds:
                    holds[key] = charset.holds(char)
                if holds[key]:
                    found.update(exits)
        return frozenset(found)

    def _closure(self, states: _States, before: _Side, after: _Side) -> _States:
        """Return the reading and accepting states that can be reached without reading, at a position between two
        characters."""
        seen = set(states)
        waiting = list(states)
        found: set[int] = set()
        while waiting:
            number = waiting.pop()
            state = self._states[number]
            if state.reads is not None or number == _MATCH:
                found.add(number)
            elif state.needs is None or _holds(state.needs, before, after):
                fresh = [target for target in state.exits if target not in seen]
                seen.update(fresh)
                waiting += fresh
        return frozenset(found)


@lru_cache(maxsize=32)
def compile_pattern(text: str) -> Pattern:
    """Compile a client's pattern. Recent patterns are cached with their transitions.

    Raises:
        BrokerError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        return Pattern(text)
    except PatternError as error:
        raise BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, detail=f"invalid regular expression: {error}") from None


class _Builder:
    """Builds the states from the last part of the pattern to the first."""

    def __init__(self) -> None:
        self.states = [_State(None, None, ())]
        self._size = 0

    def build(self, node: Node, then: int) -> int:
        """Add the states of a part that continues with ``then``, and return its first state."""
        # Count parts that don't read anything, too: ((){1000}){1000} would create a million states.
        self._size += 1
        if self._size > MAX_SIZE:
            raise PatternError(f"with its repetitions the pattern has more than {MAX_SIZE} parts")
        if isinstance(node, Chars):
            return self._add(_State(node.charset, None, (then,)))
        if isinstance(node, Assertion):
            return self._add(_State(None, node, (then,)))
        if isinstance(node, Choice):
            return self._add(_State(None, None, tuple(self.build(part, then) for part in node.parts)))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self.build(part, then)
            return then
        return self._repeat(node, then)

    def _repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            # The part leads back to the loop, so the loop needs its number before its exits are known.
            loop = self._add(_State(None, None, ()))
            self.states[loop] = _State(None, None, (self.build(node.part, loop), then))
            start = loop
        else:
            start = then
            for _ in range(node.most - node.least):
                start = self._add(_State(None, None, (self.build(node.part, start), then)))
        for _ in range(node.least):
            start = self.build(node.part, start)
        return start

    def _add(self, state: _State) -> int:
        self.states.append(state)
        return len(self.states) - 1


def _side(char: str) -> _Side:
    if not char:
        return _Side.EDGE
    if char == "\n":
        return _Side.NEWLINE
    return _Side.WORD if _WORD.holds(char) else _Side.OTHER


def _holds(assertion: Assertion, before: _Side, after: _Side) -> bool:
    if assertion is Assertion.BEGIN_TEXT:
        return before is _Side.EDGE
    if assertion is Assertion.END_TEXT:
        return after is _Side.EDGE
    if assertion is Assertion.BEGIN_LINE:
        return before in (_Side.EDGE, _Side.NEWLINE)
    if assertion is Assertion.END_LINE:
        return after in (_Side.EDGE, _Side.NEWLINE)
    return ((before is _Side.WORD) != (after is _Side.WORD)) == (assertion is Assertion.BOUNDARY)
