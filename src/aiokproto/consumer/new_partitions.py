"""Which partitions are new to a subscription, so that records from before they were noticed are read. Pure.

A partition without a committed offset may be one that the group hasn't read yet, where ``auto_offset_reset`` decides.
Or it has appeared since the group started. Then starting at its end would lose the records that were written before the
group noticed it. Partitions are only added at the end, so two observations tell these cases apart:

* This consumer has seen the topic without the partition since it subscribed, or without the topic.
* The group has committed offsets for the topic's first partitions, without a gap, and for none from this one on. This
  works across restarts and rebalances, even for a member that has seen nothing itself.

No rule can tell whether a group that commits single records has read a partition without processing a record. A gap is
the sign of such a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from aiokproto.types import TopicPartition


class SeenTopics:
    """The number of partitions that topics had when they were subscribed."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._subscription: object = None
        self._pattern = False

    def begins(self, subscription: object) -> bool:
        """Return whether nothing was noted about a subscription yet."""
        return self._subscription is not subscription

    def note(
        self, subscription: object, counts: Mapping[str, int], missing: Iterable[str] = (), *, pattern: bool = False
    ) -> None:
        """Note the partitions of subscribed topics, and which topics don't exist."""
        if self.begins(subscription):
            # A topic that stays subscribed keeps its count.
            self._counts = {topic: self._counts.get(topic, count) for topic, count in counts.items()}
            self._subscription, self._pattern = subscription, pattern
        for topic, count in counts.items():
            # A topic that is found by name only now may have existed, hidden from this client.
            self._counts.setdefault(topic, 0 if pattern else count)
        if pattern and counts:
            # Forget deleted topics. Every topic that this client has matched has a count, so one without a count is new
            # when it's created again.
            self._counts = {topic: count for topic, count in self._counts.items() if count or topic in counts}
        for topic in missing:
            self._counts.setdefault(topic, 0)

    def lacked(self, partition: TopicPartition) -> bool:
        """Return whether the topic was seen without this partition."""
        count = self._counts.get(partition.topic)
        if count is None:
            # The broker has matched the topic with the pattern, and it didn't exist before.
            return self._pattern
        return partition.partition >= count


def follows_committed(partition: TopicPartition, committed: Collection[int]) -> bool:
    """Return whether a group that has ``committed`` these partitions of the topic started without this one."""
    return 0 < len(committed) <= partition.partition and max(committed) + 1 == len(committed)
