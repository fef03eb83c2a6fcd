"""Which partitions are new to a subscription: what was written to them before they were noticed counts. Pure.

A partition without a committed offset may be one that nobody has read yet, where ``auto_offset_reset`` decides, or one
that has appeared since the group began: there, starting at the end would lose what was written before the group
noticed it. Partitions are only ever added at the end, so two observations tell:

* This consumer has seen the topic without the partition since it subscribed, or without the topic.
* The group has committed offsets for the topic's first partitions, without a gap, and for none from this one on. That
  holds over restarts and rebalances, for a member that has seen nothing itself.

What no rule can tell: whether a group that commits single records has read a partition of which it processed none. A
gap is the sign of such a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from aiokproto.types import TopicPartition


class SeenTopics:
    """How many partitions topics had when their subscription began."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._subscription: object = None
        self._pattern = False

    def begins(self, subscription: object) -> bool:
        """Return whether nothing was noted of a subscription."""
        return self._subscription is not subscription

    def note(
        self, subscription: object, counts: Mapping[str, int], missing: Iterable[str] = (), *, pattern: bool = False
    ) -> None:
        """Take note of the partitions of subscribed topics, and of those that do not exist."""
        if self.begins(subscription):
            # Of a topic that stays subscribed, the former count holds.
            self._counts = {topic: self._counts.get(topic, count) for topic, count in counts.items()}
            self._subscription, self._pattern = subscription, pattern
        for topic, count in counts.items():
            # Found by name only now, it may have existed: this client was not allowed to see it.
            self._counts.setdefault(topic, 0 if pattern else count)
        if pattern and counts:
            # Deleted: what this client has matched has a count. A topic without one was not there to be noted, either.
            self._counts = {topic: count for topic, count in self._counts.items() if count or topic in counts}
        for topic in missing:
            self._counts.setdefault(topic, 0)

    def lacked(self, partition: TopicPartition) -> bool:
        """Return whether the topic was seen without this partition."""
        count = self._counts.get(partition.topic)
        if count is None:
            # One that the broker has matched with the pattern, and that was not there to be noted.
            return self._pattern
        return partition.partition >= count


def follows_committed(partition: TopicPartition, committed: Collection[int]) -> bool:
    """Return whether a group that has ``committed`` these partitions of the topic began without this one."""
    return 0 < len(committed) <= partition.partition and max(committed) + 1 == len(committed)
