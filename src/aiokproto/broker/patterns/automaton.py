"""Whether a text matches a pattern, in time that is linear in both.

Theory of operation. The tree becomes a nondeterministic automaton (Thompson's): states that read a character of a set,
and states that read nothing and lead on to others. A text is followed through all states at once, so that none is
looked at more than once for a character; sets of states that were met are remembered with what follows them, which
makes a deterministic automaton of the parts that are in use.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from aiokproto.broker.patterns.charset import PERL, Charset, spans
from aiokproto.broker.patterns.syntax import Assertion, Chars, Choice, Node, PatternError, Repeat, Sequence, parse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

MAX_LENGTH = 1024
"""Characters of a pattern."""
MAX_SIZE = 1500
"""Parts of a pattern, where one that is repeated counts as often as that."""
_MAX_REMEMBERED = 20_000
"""Most states in all the sets that a pattern remembers."""

_WORD = Charset(spans(PERL["w"]))
_MATCH = 0
"""The state in which all is read."""


class _Side(IntEnum):
    """What is next to a place, as far as assertions ask."""

    EDGE = 0
    NEWLINE = 1
    WORD = 2
    OTHER = 3


class _State(NamedTuple):
    """A state: what it reads if anything, or else what has to be true, and where it leads."""

    reads: Charset | None
    needs: Assertion | None
    exits: tuple[int, ...]


_States = frozenset[int]


class Pattern:
    """A pattern that is ready for use."""

    def __init__(self, text: str) -> None:
        """Read it.

        Raises:
            PatternError: It is none, or too large.
        """
        if len(text) > MAX_LENGTH:
            raise PatternError(f"a pattern of {len(text)} characters; the limit is {MAX_LENGTH}")
        builder = _Builder()
        self._start: _States = frozenset({builder.build(parse(text), _MATCH)})
        self._states = builder.states
        self._remembered: dict[tuple[_States, str, _Side], _States] = {}
        self._weight = 0

    def fullmatch(self, text: str) -> bool:
        """Whether the whole text matches."""
        sides = [*map(_side, text), _Side.EDGE]
        states = self._follow(self._start, "", sides[0])
        for char, after in zip(text, sides[1:], strict=True):
            if not states:
                return False
            states = self._follow(states, char, after)
        return _MATCH in states

    def _follow(self, states: _States, char: str, after: _Side) -> _States:
        """Where to go on after a character, with what stands behind it; after none, at the beginning."""
        key = (states, char, after)
        known = self._remembered.get(key)
        if known is None:
            known = self._closure(self._read(states, char), _side(char), after)
            self._weight += 1 + len(known)
            if self._weight > _MAX_REMEMBERED:
                self._remembered.clear()
                self._weight = 0
            self._remembered[key] = known
        return known

    def _read(self, states: _States, char: str) -> _States:
        if not char:
            return states
        # Many states read the same: what is repeated does.
        holds: dict[int, bool] = {}
        found: set[int] = set()
        for number in states:
            charset, _, exits = self._states[number]
            if charset is not None:
                if (one := id(charset)) not in holds:
                    holds[one] = charset.holds(char)
                if holds[one]:
                    found.update(exits)
        return frozenset(found)

    def _closure(self, states: _States, before: _Side, after: _Side) -> _States:
        """The states that read, or have read all, to which these lead at a place between two characters."""
        seen = set(states)
        waiting = list(states)
        found: set[int] = set()
        while waiting:
            number = waiting.pop()
            state = self._states[number]
            if state.reads is not None or number == _MATCH:
                found.add(number)
            elif state.needs is None or _holds(state.needs, before, after):
                fresh = [each for each in state.exits if each not in seen]
                seen.update(fresh)
                waiting += fresh
        return frozenset(found)


@lru_cache(maxsize=32)
def compile_pattern(text: str) -> Pattern:
    """A pattern that a client has sent. Those in use are kept, with what they have learned.

    Raises:
        BrokerError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        return Pattern(text)
    except PatternError as error:
        raise BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, detail=f"no regular expression: {error}") from None


class _Builder:
    """Makes the states, from the last to the first."""

    def __init__(self) -> None:
        self.states = [_State(None, None, ())]
        self._size = 0

    def build(self, node: Node, then: int) -> int:
        """Add the states of a part that leads to ``then``; returns where it begins."""
        # What reads nothing counts too: a thousand times a thousand times nothing would still take its time.
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
            loop = self._add(_State(None, None, ()))
            self.states[loop] = _State(None, None, (self.build(node.part, loop), then))
            begin = loop
        else:
            begin = then
            for _ in range(node.most - node.least):
                begin = self._add(_State(None, None, (self.build(node.part, begin), then)))
        for _ in range(node.least):
            begin = self.build(node.part, begin)
        return begin

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
