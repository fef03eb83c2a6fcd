"""Which topics a consumer group reads: those its members name, and those that match their patterns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Protocol

from aiokproto.broker.groups.consumer.member import ConsumerMember
from aiokproto.broker.patterns import compile_pattern

REFRESH_SECONDS = 600.0
"""How old what a pattern matches may become, even if no topic comes or goes: permissions do, too."""


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


class Subscriptions:
    """The topics of a group's members, as of the last :meth:`update`.

    Attributes:
        matches: The topics that each of the members' patterns matches, as far as who asked may know of them.
        sizes: The number of partitions of each topic that is read and exists, by topic id.
        hash: Of the topics that are read; it changes if these do. 0 if there are none.
    """

    def __init__(self) -> None:
        self.matches: dict[str, frozenset[str]] = {}
        self.sizes: dict[bytes, int] = {}
        self.hash = 0
        self._ids: dict[str, bytes] = {}
        self._known_topics: frozenset[str] | None = None
        self._refreshed_at = 0.0

    def match(
        self, members: Iterable[ConsumerMember], topics: Topics, now: float, describable: Callable[[str], bool]
    ) -> None:
        """Find the topics of patterns that are new; of all, if topics came or went, or that was long ago.

        Args:
            members: The members.
            topics: The topics there are.
            now: The time, in seconds.
            describable: Which of them the member may know of that is heard just now, by name.
        """
        patterns = {member.regex for member in members if member.regex}
        if not patterns:
            return
        existing = frozenset(topics.names())
        stale = existing != self._known_topics or now - self._refreshed_at >= REFRESH_SECONDS
        if stale:
            self._known_topics, self._refreshed_at = existing, now
        for pattern in patterns if stale else patterns - self.matches.keys():
            matches = compile_pattern(pattern).fullmatch
            self.matches[pattern] = frozenset(name for name in existing if matches(name) and describable(name))

    def update(self, members: Iterable[ConsumerMember], topics: Topics) -> None:
        """Look anew at what the members want, and at the topics; patterns match what they did."""
        names: set[str] = set()
        patterns: set[str] = set()
        for member in members:
            names |= member.topics
            if member.regex:
                patterns.add(member.regex)
        self.matches = {pattern: self.matches.get(pattern, frozenset()) for pattern in patterns}
        found = {name: topics.find(name) for name in sorted(names.union(*self.matches.values()))}
        known = {name: topic for name, topic in found.items() if topic is not None}
        self._ids = {name: topic_id for name, (topic_id, _) in known.items()}
        self.sizes = dict(known.values())
        self.hash = metadata_hash(known)

    def names_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that a member wants."""
        return member.topics | self.matches.get(member.regex, frozenset())

    def ids_of(self, member: ConsumerMember) -> frozenset[bytes]:
        """The ids of those of them that exist."""
        return frozenset(self._ids[name] for name in self.names_of(member) if name in self._ids)


def metadata_hash(topics: dict[str, tuple[bytes, int]]) -> int:
    """Hash of topics by name, with their ids and numbers of partitions; 0 if there are none."""
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, (topic_id, size) in topics.items():
        digest.update(b"%s %s %d\n" % (name.encode(), topic_id, size))
    return int.from_bytes(digest.digest(), "big", signed=True)
