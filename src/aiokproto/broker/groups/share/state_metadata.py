"""Which partitions of a share group have a state at the share coordinator: only those are given to members."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class StateTopic(NamedTuple):
    """Partitions of a topic, and how it was called when they were noted."""

    name: str
    partitions: frozenset[int]


Topics = dict[bytes, StateTopic]
"""By topic id."""


@dataclass
class StatePartitionMetadata:
    """What was asked of the share coordinator, and what came of it: noted before and after, since either may be lost.

    Attributes:
        initializing: States that are to begin.
        initialized: States there are.
        deleting: The names of topics whose states are to end, by topic id.
        noted: Whether there was ever anything to note.
    """

    initializing: Topics = field(default_factory=dict)
    initialized: Topics = field(default_factory=dict)
    deleting: dict[bytes, str] = field(default_factory=dict)
    recorded: bool = False

    def missing(self, sizes: Mapping[bytes, int]) -> dict[bytes, frozenset[int]]:
        """The partitions of these topics, of which the numbers are given, that have no state yet."""
        found = {topic_id: frozenset(range(size)) - self.partitions_of(topic_id) for topic_id, size in sizes.items()}
        return {topic_id: partitions for topic_id, partitions in found.items() if partitions}

    def partitions_of(self, topic_id: bytes) -> frozenset[int]:
        """The partitions of a topic that have a state."""
        return self.initialized[topic_id].partitions if topic_id in self.initialized else frozenset()

    def start_initializing(self, topic_id: bytes, name: str, partitions: Collection[int]) -> None:
        """States are to begin, or to be set anew."""
        self.recorded = True
        self.deleting.pop(topic_id, None)
        _add(self.initializing, topic_id, name, partitions)

    def mark_initialized(self, topic_id: bytes, partitions: Collection[int]) -> None:
        """These have a state now."""
        name, waiting = self.initializing[topic_id]
        if partitions:
            _add(self.initialized, topic_id, name, partitions)
        left = waiting.difference(partitions)
        if left:
            self.initializing[topic_id] = StateTopic(name, left)
        else:
            del self.initializing[topic_id]

    def start_deleting(self, topic_id: bytes) -> frozenset[int]:
        """All states of a topic are to end: returns the partitions that have one, or may have."""
        known = [topics.pop(topic_id) for topics in (self.initializing, self.initialized) if topic_id in topics]
        if known:
            self.deleting[topic_id] = known[0].name
        return frozenset().union(*(topic.partitions for topic in known))

    def mark_deleted(self, topic_id: bytes) -> None:
        """A topic's states are gone."""
        self.deleting.pop(topic_id, None)

    def remove_topic(self, topic_id: bytes) -> bool:
        """A topic is no more, and so are its states; whether anything was known of it."""
        known = [each.pop(topic_id, None) for each in (self.initializing, self.initialized, self.deleting)]
        return any(each is not None for each in known)


def _add(topics: Topics, topic_id: bytes, name: str, partitions: Collection[int]) -> None:
    before = topics[topic_id].partitions if topic_id in topics else frozenset()
    topics[topic_id] = StateTopic(name, before.union(partitions))
