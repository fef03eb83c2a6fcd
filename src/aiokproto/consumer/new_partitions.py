"""Detects partitions that are new to a subscription, to read the records written before they were noticed. Pure.

If a partition has no committed offset, the group may not have read it yet, and ``auto_offset_reset`` decides where to
start. Or the partition has appeared since the group started. In that case, starting at its end would lose the records
that were written before the group noticed it. Partition numbers are only added at the end, so two observations identify
a new partition:

* Since it subscribed, this consumer has seen the topic without the partition, or the cluster without the topic.
* The group has committed offsets for the topic's first partitions, without a gap, but not for this one or any higher
  one. This works across restarts and rebalances, even if this member hasn't seen anything itself.

If a group commits individual records, no rule can tell whether it has read a partition without processing a record. A
gap indicates such a group.
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

    def is_new(self, subscription: object) -> bool:
        """Return whether nothing has been noted about a subscription yet."""
        return self._subscription is not subscription

    def note(
        self, subscription: object, counts: Mapping[str, int], missing: Iterable[str] = (), *, pattern: bool = False
    ) -> None:
        """Note the partitions of subscribed topics, and which topics don't exist."""
        if self.is_new(subscription):
            # A topic that stays subscribed keeps its count.
            self._counts = {topic: self._counts.get(topic, count) for topic, count in counts.items()}
            self._subscription, self._pattern = subscription, pattern
        for topic, count in counts.items():
            # A topic subscribed by name and found only now may have existed before, hidden from this client.
            self._counts.setdefault(topic, 0 if pattern else count)
        if pattern and counts:
            # Forget deleted topics. Every topic that this client has matched has a count, so a topic without a count is
            # new when it's created again.
            self._counts = {topic: count for topic, count in self._counts.items() if count or topic in counts}
        for topic in missing:
            self._counts.setdefault(topic, 0)

    def lacked(self, partition: TopicPartition) -> bool:
        """Return whether the topic was seen without this partition."""
        count = self._counts.get(partition.topic)
        if count is None:
            # The broker has matched the topic with the pattern, so it didn't exist before.
            return self._pattern
        return partition.partition >= count


def follows_committed(partition: TopicPartition, committed: Collection[int]) -> bool:
    """Return whether a group that has ``committed`` these partitions of the topic started before this one existed."""
    return 0 < len(committed) <= partition.partition and max(committed) + 1 == len(committed)
