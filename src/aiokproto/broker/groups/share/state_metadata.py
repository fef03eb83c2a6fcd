"""Which partitions of a share group have a state at the share coordinator. Only these are assigned to members.

A partition's state goes through three stages. The stage is written to the group's records before the share coordinator
is called and again when the call has succeeded, so another coordinator can continue::

    start_initializing ──▶ initializing
    mark_initialized   ──▶ initialized
    start_deleting     ──▶ deleting
    mark_deleted       ──▶ (nothing)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class StateTopic(NamedTuple):
    """Partitions of a topic, and the topic's name at the time they were added."""

    name: str
    partitions: frozenset[int]


Topics = dict[bytes, StateTopic]
"""By topic id."""


@dataclass
class StatePartitionMetadata:
    """The content of a ShareGroupStatePartitionMetadata record.

    Attributes:
        initializing: Partitions whose states have to be initialized.
        initialized: Partitions that have a state.
        deleting: Topics whose states have to be deleted: name by topic id.
        recorded: Whether there was ever anything to write. If not, the group has no such record.
    """

    initializing: Topics = field(default_factory=dict)
    initialized: Topics = field(default_factory=dict)
    deleting: dict[bytes, str] = field(default_factory=dict)
    recorded: bool = False

    def missing(self, sizes: Mapping[bytes, int]) -> dict[bytes, frozenset[int]]:
        """Return the partitions without a state. ``sizes`` is the number of partitions of each topic, by topic id."""
        found = {topic_id: frozenset(range(size)) - self.partitions_of(topic_id) for topic_id, size in sizes.items()}
        return {topic_id: partitions for topic_id, partitions in found.items() if partitions}

    def partitions_of(self, topic_id: bytes) -> frozenset[int]:
        """Return the partitions of a topic that have a state."""
        return self.initialized[topic_id].partitions if topic_id in self.initialized else frozenset()

    def start_initializing(self, topic_id: bytes, name: str, partitions: Collection[int]) -> None:
        """Add partitions whose states have to be initialized, or reset."""
        self.recorded = True
        # An interrupted deletion doesn't have to be finished: the state is about to be reset.
        self.deleting.pop(topic_id, None)
        _add(self.initializing, topic_id, name, partitions)

    def mark_initialized(self, topic_id: bytes, partitions: Collection[int]) -> None:
        """Mark partitions as initialized."""
        name, waiting = self.initializing[topic_id]
        if partitions:
            _add(self.initialized, topic_id, name, partitions)
        remaining = waiting.difference(partitions)
        if remaining:
            self.initializing[topic_id] = StateTopic(name, remaining)
        else:
            del self.initializing[topic_id]

    def start_deleting(self, topic_id: bytes) -> frozenset[int]:
        """Mark a topic's states for deletion, and return its partitions that have a state or may have one."""
        known = [topics.pop(topic_id) for topics in (self.initializing, self.initialized) if topic_id in topics]
        if known:
            self.deleting[topic_id] = known[0].name
        return frozenset().union(*(topic.partitions for topic in known))

    def mark_deleted(self, topic_id: bytes) -> None:
        """Remove a topic whose states have been deleted."""
        self.deleting.pop(topic_id, None)

    def remove_topic(self, topic_id: bytes) -> bool:
        """Remove a topic that was deleted. Return whether anything changed."""
        known = [each.pop(topic_id, None) for each in (self.initializing, self.initialized, self.deleting)]
        return any(each is not None for each in known)


def _add(topics: Topics, topic_id: bytes, name: str, partitions: Collection[int]) -> None:
    before = topics[topic_id].partitions if topic_id in topics else frozenset()
    topics[topic_id] = StateTopic(name, before.union(partitions))
