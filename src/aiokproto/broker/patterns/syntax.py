"""Parses RE2's syntax into a tree.

Supported: characters, ``[...]`` with POSIX's and Perl's classes and Unicode's categories, groups with and without a
name or flags (``imsU``), ``|``, greedy and lazy repetitions up to 1000, and the assertions ``^``, ``$``, ``\\A``,
``\\z``, ``\\b`` and ``\\B``. Groups don't capture: only whether the text matches counts.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from aiokproto.broker.patterns.charset import (
    ANY,
    ANY_BUT_NEWLINE,
    CATEGORIES,
    PERL,
    POSIX,
    Category,
    Charset,
    Span,
    spans,
)

MAX_REPETITIONS = 1000
MAX_DEPTH = 50
"""Maximum depth of nested groups. There is a limit because parsing is recursive."""

_REPETITION = re.compile(r"(?:[*+?]|\{(?P<least>0|[1-9][0-9]*)(?P<open>,(?P<most>0|[1-9][0-9]*)?)?\})\??")
_NAME = re.compile(r"\?P?<(?P<name>[^>]*)>")
_FLAGS = re.compile(r"\?(?P<on>[imsU]*)(?:-(?P<off>[imsU]+))?(?P<end>[:)])")
_CODE = re.compile(
    r"(?P<octal>0[0-7]{0,2}|[1-7][0-7]{1,2})|x(?:(?P<hex>[0-9A-Fa-f]{2})|\{(?P<long>[0-9A-Fa-f]+)\})"
    r"|(?P<letter>[afnrtv])|(?P<itself>[^0-9A-Za-z])",
    re.DOTALL,
)
_CATEGORY = re.compile(r"(?P<other>[pP])(?:\{(?P<long>[^}]*)\}|(?P<short>.))", re.DOTALL)
_LETTERS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST_CHARACTER = 0x10FFFF


class PatternError(ValueError):
    """A pattern is invalid or too large. The message gives the reason and the position."""


class Assertion(Enum):
    """A zero-width assertion."""

    BEGIN_TEXT = r"\A"
    END_TEXT = r"\z"
    BEGIN_LINE = "^"
    END_LINE = "$"
    BOUNDARY = r"\b"
    NO_BOUNDARY = r"\B"


class Chars(NamedTuple):
    """One character of a set."""

    charset: Charset


class Sequence(NamedTuple):
    """Parts in sequence. An empty sequence matches the empty string."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """One of several alternatives."""

    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    """A part repeated ``least`` to ``most`` times. If ``most`` is None, there is no limit."""

    part: Node
    least: int
    most: int | None


Node = Chars | Assertion | Sequence | Choice | Repeat


class _Flags(NamedTuple):
    folded: bool = False
    lines: bool = False
    newline: bool = False

    def changed(self, letters: str, value: bool) -> _Flags:
        names = {"i": "folded", "m": "lines", "s": "newline"}
        return self._replace(**{names[letter]: value for letter in letters if letter in names})


def parse(text: str) -> Node:
    """Parse a pattern.

    Raises:
        PatternError: The pattern is invalid.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = _Flags()
        self._names: set[str] = set()

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise self._error("unmatched )")
        return node

    # ---- scanning

    def _error(self, why: str) -> PatternError:
        return PatternError(f"{why}, at {self._at} of {self._text[:100]!r}")

    def _sees(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        """Consume a string if it comes next, and return whether it did."""
        found = self._sees(text)
        if found:
            self._at += len(text)
        return found

    def _next(self, missing: str) -> str:
        """Consume and return the next character; fail with ``missing`` at the end."""
        if self._at == len(self._text):
            raise self._error(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        """Match an expression at the current position. Consume and return the match, if any."""
        found = expression.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    # ---- composite parts

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        repeated = False
        while self._at < len(self._text) and not self._sees("|") and not self._sees(")"):
            start = self._at
            repetition = self._match(_REPETITION)
            if repetition is None:
                parts += self._item()
            elif not parts or repeated:
                self._at = start
                raise self._error("repetition without anything to repeat")
            else:
                parts[-1] = self._repeat(parts[-1], repetition)
            # RE2/J, which Kafka uses, treats a literal brace like a repetition, so it can't be followed by a
            # repetition.
            repeated = repetition is not None or self._text[start] == "{"
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeat(self, part: Node, found: re.Match[str]) -> Repeat:
        if found["least"] is None:
            return Repeat(part, *{"*": (0, None), "+": (1, None), "?": (0, 1)}[found[0][0]])
        least = _bounded(found["least"])
        most = _bounded(found["most"]) if found["most"] else None if found["open"] else least
        if max(least, most or 0) > MAX_REPETITIONS or (most is not None and least > most):
            raise self._error(f"repetition bounds are out of order or above {MAX_REPETITIONS}")
        return Repeat(part, least, most)

    def _group(self) -> list[Node]:
        outside = self._flags
        named = self._match(_NAME)
        if named is not None:
            name = named["name"]
            if not re.fullmatch("[0-9A-Za-z_]+", name) or name in self._names:
                raise self._error(f"group name {name!r} is invalid or used twice")
            self._names.add(name)
        elif self._sees("?"):
            flags = self._match(_FLAGS)
            if flags is None:
                raise self._error("unknown group syntax")
            self._flags = outside.changed(flags["on"], True).changed(flags["off"] or "", False)
            if flags["end"] == ")":
                return []
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} nested groups")
        node = self._choice()
        if not self._take(")"):
            raise self._error("missing )")
        self._depth -= 1
        self._flags = outside
        return [node]

    # ---- single characters

    def _item(self) -> list[Node]:
        char = self._next("")
        lines, newline = self._flags.lines, self._flags.newline
        if char == "(":
            return self._group()
        if char == "[":
            return [Chars(self._class())]
        if char == "\\":
            return self._escape()
        if char == ".":
            return [Chars(ANY if newline else ANY_BUT_NEWLINE)]
        if char == "^":
            return [Assertion.BEGIN_LINE if lines else Assertion.BEGIN_TEXT]
        if char == "$":
            return [Assertion.END_LINE if lines else Assertion.END_TEXT]
        return [self._literal(char)]

    def _literal(self, char: str) -> Chars:
        return Chars(Charset((Span(char, char),), folded=self._flags.folded))

    def _escape(self) -> list[Node]:
        if self._take("Q"):
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at : end if end >= 0 else None]
            self._at += len(quoted)
            self._take("\\E")
            return [self._literal(char) for char in quoted]
        for assertion in (Assertion.BEGIN_TEXT, Assertion.END_TEXT, Assertion.BOUNDARY, Assertion.NO_BOUNDARY):
            if self._take(assertion.value[1]):
                return [assertion]
        charset = self._escaped_class()
        return [Chars(charset) if charset is not None else self._literal(self._escaped_char())]

    def _escaped_class(self) -> Charset | None:
        """Parse the class after a backslash. Return None if it isn't a class."""
        folded = self._flags.folded
        for letter, ends in PERL.items():
            for negated, form in ((False, letter), (True, letter.upper())):
                if self._take(form):
                    return Charset(spans(ends), negated, folded)
        found = self._match(_CATEGORY)
        if found is None:
            if self._sees("p") or self._sees("P"):
                raise self._error("missing category name")
            return None
        name = found["long"] if found["short"] is None else found["short"]
        negated = (found["other"] == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return ANY._replace(negated=not negated)
        if name not in CATEGORIES:
            raise self._error(f"{name!r} is no Unicode category; scripts are not supported")
        return Charset((Category(name),), negated, folded)

    def _escaped_char(self) -> str:
        """Parse the character after a backslash."""
        found = self._match(_CODE)
        if found is None:
            raise self._error("unknown escape sequence")
        if found["itself"]:
            return found["itself"]
        if found["letter"]:
            return _LETTERS[found["letter"]]
        code = int(found["octal"], 8) if found["octal"] else int(found["hex"] or found["long"], 16)
        if code > _LAST_CHARACTER:
            raise self._error(f"there is no character {code:x}")
        return chr(code)

    # ---- classes

    def _class(self) -> Charset:
        negated = self._take("^")
        items: list[Span | Category | Charset] = []
        # A ] right after the [ is a character in the class: there are no empty classes.
        first = True
        while first or not self._take("]"):
            first = False
            items.append(self._posix_class() or self._class_escape() or self._span())
        return Charset(tuple(items), negated, self._flags.folded)

    def _posix_class(self) -> Charset | None:
        end = self._text.find(":]", self._at)
        if not self._sees("[:") or end < 0:
            return None
        name = self._text[self._at + 2 : end]
        if name.removeprefix("^") not in POSIX:
            raise self._error(f"{name!r} is no POSIX class")
        self._at = end + 2
        return Charset(spans(POSIX[name.removeprefix("^")]), name.startswith("^"), self._flags.folded)

    def _class_escape(self) -> Charset | None:
        start = self._at
        if self._take("\\"):
            charset = self._escaped_class()
            if charset is not None:
                return charset
            self._at = start
        return None

    def _span(self) -> Span:
        first = last = self._class_char()
        # A hyphen at the end of the class is a literal.
        if self._sees("-") and not self._sees("-]"):
            self._at += 1
            last = self._class_char()
            if last < first:
                raise self._error(f"invalid range from {first!r} to {last!r}")
        return Span(first, last)

    def _class_char(self) -> str:
        char = self._next("missing ]")
        return self._escaped_char() if char == "\\" else char


def _bounded(digits: str) -> int:
    """Return the number, or a number above the limit if it has too many digits to convert safely."""
    return int(digits) if len(digits) <= len(str(MAX_REPETITIONS)) else MAX_REPETITIONS + 1
