"""Character sets: what one position of a pattern matches."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

_SECOND_LETTERS = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
CATEGORIES = frozenset(first + second for first, seconds in _SECOND_LETTERS.items() for second in ("", *seconds))
"""Unicode's general categories, as one letter or both."""

# The values are pairs of first and last characters. As in RE2, \s doesn't include the vertical tab, but [[:space:]]
# does.
PERL = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
POSIX = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\0\x7f",
    "blank": "\t\t  ",
    "cntrl": "\0\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZ__az",
    "xdigit": "09AFaf",
}


class Span(NamedTuple):
    """A range of characters."""

    first: str
    last: str

    def holds(self, char: str) -> bool:
        """Return whether the range contains a character."""
        return self.first <= char <= self.last


class Category(NamedTuple):
    """The characters of a Unicode general category."""

    name: str

    def holds(self, char: str) -> bool:
        """Return whether the category contains a character."""
        found = unicodedata.category(char)
        # RE2 has no table for unassigned characters.
        return found.startswith(self.name) and found != "Cn"


class Charset(NamedTuple):
    """A union of ranges and categories. ``negated`` makes it the complement, and ``folded`` ignores case."""

    items: tuple[Span | Category | Charset, ...]
    negated: bool = False
    folded: bool = False

    def holds(self, char: str) -> bool:
        """Return whether the set contains a character."""
        forms = {char, char.lower(), char.upper(), char.casefold()} if self.folded else {char}
        found = any(item.holds(form) for form in forms if len(form) == 1 for item in self.items)
        return found != self.negated


def spans(ends: str) -> tuple[Span, ...]:
    """Make ranges from pairs of first and last characters."""
    return tuple(map(Span, ends[::2], ends[1::2]))


ANY = Charset((), negated=True)
ANY_BUT_NEWLINE = Charset((Span("\n", "\n"),), negated=True)
