"""The topics that a consumer group subscribes to: by name, and by regular expressions resolved by the coordinator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from aiokproto.broker.groups.consumer.member import ConsumerMember
from aiokproto.broker.groups.consumer.resolution import Resolution

if TYPE_CHECKING:
    from aiokproto.broker.metadata.cluster_state import ClusterState

REFRESH_SECONDS = 600.0
"""How often regular expressions are resolved again even if no topic was created or deleted, because permissions may
have changed."""

PAUSE_SECONDS = 10.0
"""Minimum pause after a resolution that took more than one slice. Kafka pauses after each resolution."""


class Topics:
    """The cluster's topics, as groups look them up."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def find(self, name: str) -> tuple[bytes, int] | None:
        """Return a topic's id and number of partitions; None if it does not exist."""
        topic = self._state.topics.get(name)
        return (topic.topic_id, len(topic.partitions)) if topic is not None else None

    def name(self, topic_id: bytes) -> str | None:
        """Return a topic's name; None if no topic has this id."""
        topic = self._state.topic_by_id(topic_id)
        return topic.name if topic is not None else None

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return self._state.topics


class Subscriptions:
    """The subscribed topics of a group's members, as of the last :meth:`update`.

    Attributes:
        matches: The topics that each regular expression matches, except those that the member whose heartbeat started
            the resolution isn't permitted to describe. Expressions that haven't been resolved yet are missing.
        sizes: The number of partitions of each subscribed topic that exists, by topic id.
        hash: A hash of these topics, to detect changes; 0 if there are none.
    """

    def __init__(self) -> None:
        self.matches: dict[str, frozenset[str]] = {}
        self.sizes: dict[bytes, int] = {}
        self.hash = 0
        self._ids: dict[str, bytes] = {}
        self._resolution = Resolution()
        self._known_topics: frozenset[str] | None = None
        self._refreshed_at = 0.0
        self._pause_until = float("-inf")

    @property
    def resolving(self) -> bool:
        """Whether a resolution is in progress. If so, :meth:`resolve` must be called to continue it."""
        return self._resolution.under_way

    def match(
        self, members: Iterable[ConsumerMember], topics: Topics, now: float, describable: Callable[[str], bool]
    ) -> None:
        """Start resolving regular expressions if one is new, if topics were created or deleted, or after 10 minutes.

        Most patterns are resolved when this returns. Expensive ones take more slices (:meth:`resolve`), and their
        members get the topics at a later heartbeat, as always in Kafka.

        Args:
            members: The members.
            topics: The cluster's topics.
            now: The current time (s).
            describable: Returns whether the member that sent this heartbeat is permitted to describe a topic. As in
                Kafka, its permissions apply to all members with the same expression.
        """
        # This isn't done at each heartbeat. With thousands of topics, it takes much longer than the rest of a
        # heartbeat.
        patterns = {member.regex for member in members if member.regex}
        if not patterns or self.resolving or now < self._pause_until:
            return
        existing = frozenset(topics.names())
        stale = existing != self._known_topics or now - self._refreshed_at >= REFRESH_SECONDS
        if stale:
            self._known_topics, self._refreshed_at = existing, now
        elif all(self._resolution.knows(pattern) for pattern in patterns):
            return
        self._resolution.start(patterns, existing, describable)
        self.resolve()
        if self.resolving:
            self._pause_until = now + PAUSE_SECONDS

    def resolve(self) -> bool:
        """Do one slice of the resolution, which takes a few milliseconds. Return whether the resolution is complete."""
        found = self._resolution.advance()
        if found is None:
            return False
        # All matches change at once, so they cause only one rebalance.
        self.matches.update(found)
        return True

    def update(self, members: Iterable[ConsumerMember], topics: Topics) -> None:
        """Look up the topics that the members subscribe to. :meth:`match` resolves regular expressions; this
        doesn't."""
        names: set[str] = set()
        patterns: set[str] = set()
        for member in members:
            names |= member.topics
            if member.regex:
                patterns.add(member.regex)
        # Patterns that are no longer used are dropped, together with their records.
        self.matches = {pattern: names for pattern, names in self.matches.items() if pattern in patterns}
        self._resolution.keep(patterns)
        found = {name: topics.find(name) for name in sorted(names.union(*self.matches.values()))}
        existing_topics = {name: topic for name, topic in found.items() if topic is not None}
        self._ids = {name: topic_id for name, (topic_id, _) in existing_topics.items()}
        self.sizes = dict(existing_topics.values())
        self.hash = metadata_hash(existing_topics)

    def names_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to, including topics that don't exist."""
        return member.topics | self.matches.get(member.regex, frozenset())

    def ids_of(self, member: ConsumerMember) -> frozenset[bytes]:
        """Return the ids of the topics that a member subscribes to and that exist."""
        return frozenset(self._ids[name] for name in self.names_of(member) if name in self._ids)


def metadata_hash(topics: dict[str, tuple[bytes, int]]) -> int:
    """Return a hash of topics: their names, ids and numbers of partitions; 0 if there are none."""
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, (topic_id, size) in topics.items():
        digest.update(b"%s %s %d\n" % (name.encode(), topic_id, size))
    return int.from_bytes(digest.digest(), "big", signed=True)
