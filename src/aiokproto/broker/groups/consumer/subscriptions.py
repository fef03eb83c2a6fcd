"""Which topics a consumer group reads: those its members name, and those that match their patterns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from aiokproto.broker.groups.consumer.member import ConsumerMember
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

MAX_PATTERN = 1024
"""Characters of a pattern."""


class Topics(Protocol):
    """What a group has to know of the cluster's topics."""

    def find(self, name: str) -> tuple[bytes, int] | None:
        """A topic's id and number of partitions; None if there is no such topic."""
        ...

    def name(self, topic_id: bytes) -> str | None:
        """A topic's name."""
        ...

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        ...


_PARTS = re.compile(
    r"""
    \\(?P<reference>[1-9]) | \\. | \[\^?\]?(?:\\.|[^\]\\])*\]
    | (?P<group>\(\?(?:[=!>(]|<[=!]|P=)) | (?P<twice>[*+?}]\+)
    """,
    re.DOTALL | re.VERBOSE,
)
"""Escapes and classes, to be left alone, and outside of them what Kafka's regular expressions (RE2) do not have."""


@lru_cache(maxsize=128)
def compile_pattern(text: str) -> re.Pattern[str]:
    """A pattern of topic names; it has to match the whole name.

    Raises:
        BrokerError: INVALID_REGULAR_EXPRESSION.
    """
    if len(text) > MAX_PATTERN:
        raise _invalid(f"a pattern of {len(text)} characters; the limit is {MAX_PATTERN}")
    if any(part.lastgroup for part in _PARTS.finditer(text)):
        raise _invalid(f"{text!r}: Kafka has no references, no assertions and no possessive or atomic groups")
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise _invalid(f"{text!r} is no regular expression: {error}") from None


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, detail=why)


class Subscriptions:
    """The topics of a group's members, as of the last :meth:`update`.

    Attributes:
        matches: The topics that each of the members' patterns matches.
        sizes: The number of partitions of each topic that is read and exists, by topic id.
        hash: Of the topics that are read; it changes if these do. 0 if there are none.
    """

    def __init__(self) -> None:
        self.matches: dict[str, frozenset[str]] = {}
        self.sizes: dict[bytes, int] = {}
        self.hash = 0
        self._ids: dict[str, bytes] = {}

    def update(self, members: Iterable[ConsumerMember], topics: Topics) -> None:
        """Look anew at what the members want, and at the topics."""
        names: set[str] = set()
        patterns: set[str] = set()
        for member in members:
            names |= member.topics
            if member.regex:
                patterns.add(member.regex)
        self.matches = {
            pattern: frozenset(filter(compile_pattern(pattern).fullmatch, topics.names())) for pattern in patterns
        }
        found = {name: topics.find(name) for name in sorted(names.union(*self.matches.values()))}
        known = {name: topic for name, topic in found.items() if topic is not None}
        self._ids = {name: topic_id for name, (topic_id, _) in known.items()}
        self.sizes = dict(known.values())
        self.hash = _hash(known)

    def names_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that a member wants."""
        return member.topics | self.matches.get(member.regex, frozenset())

    def ids_of(self, member: ConsumerMember) -> frozenset[bytes]:
        """The ids of those of them that exist."""
        return frozenset(self._ids[name] for name in self.names_of(member) if name in self._ids)


def _hash(topics: dict[str, tuple[bytes, int]]) -> int:
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, (topic_id, size) in topics.items():
        digest.update(b"%s %s %d\n" % (name.encode(), topic_id, size))
    return int.from_bytes(digest.digest(), "big", signed=True)
