"""The server-side assignors of consumer groups: "uniform" and "range".

Both are pure functions of the members' subscriptions, the topics' numbers of partitions, and the last target.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions


class MemberSpec(NamedTuple):
    """A member as assignors see it: its subscribed topic ids, its last target assignment, its instance id."""

    topics: frozenset[bytes]
    target: TopicIdPartitions = frozenset()
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], dict[str, TopicIdPartitions]]
"""Member specs by member id, and numbers of partitions by topic id → the target assignment by member id."""


def uniform(specs: Mapping[str, MemberSpec], sizes: Mapping[bytes, int]) -> dict[str, TopicIdPartitions]:
    """Assign as evenly as the subscriptions allow, and move as few partitions as possible (sticky).

    There are four steps: keep what is still valid of the last target; if all subscriptions are the same, take from
    members what exceeds their share; assign the free partitions to the members with the fewest; even out what is still
    unbalanced.
    """
    targets: dict[str, set[TopicIdPartition]] = {
        member_id: {
            partition
            for partition in spec.target
            if partition[0] in spec.topics and partition[1] < sizes.get(partition[0], 0)
        }
        for member_id, spec in specs.items()
    }
    subscribers = _subscribers(specs)
    # If subscriptions differ, members don't have a fixed share, and _balance() does the work.
    if len({spec.topics for spec in specs.values()}) == 1:
        _shrink_to_share(targets, sum(sizes.get(topic_id, 0) for topic_id in subscribers))
    taken = {partition for target in targets.values() for partition in target}
    # Topics with the fewest subscribers come first: members with more subscriptions can be balanced with other topics
    # later.
    order = sorted((topic_id for topic_id in sizes if topic_id in subscribers), key=lambda each: len(subscribers[each]))
    # Topics with the same subscribers are assigned together.
    for _, topic_ids in groupby(order, lambda topic_id: id(subscribers[topic_id])):
        partitions = ((topic_id, index) for topic_id in topic_ids for index in range(sizes[topic_id]))
        free = [partition for partition in partitions if partition not in taken]
        if free:
            _give(free, subscribers[free[0][0]], targets)
    # The loop ends because each move lowers the difference between two members.
    _balance(targets, subscribers)
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


def _shrink_to_share(targets: Mapping[str, set[TopicIdPartition]], total: int) -> None:
    """Take partitions from members above their share of ``total``. The members with the most keep the remainder of the
    division."""
    share, remainder = divmod(total, len(targets))
    for target in sorted(targets.values(), key=lambda each: -len(each)):
        if len(target) <= share:
            break
        # Sorted, so that the result doesn't depend on the order of a set.
        target.difference_update(sorted(target)[share + (remainder > 0) :])
        remainder -= 1


def _give(
    free: Sequence[TopicIdPartition], members: Sequence[str], targets: Mapping[str, set[TopicIdPartition]]
) -> None:
    """Give each partition to the member that has the fewest at that moment; if several do, to the first of them."""
    left = iter(free)
    while True:
        # All members with the fewest get one partition each. Searching for a member for each partition would take
        # O(partitions * members).
        fewest = min(map(len, map(targets.__getitem__, members)))
        for member_id in members:
            if len(targets[member_id]) == fewest:
                if (partition := next(left, None)) is None:
                    return
                targets[member_id].add(partition)


def _balance(targets: Mapping[str, set[TopicIdPartition]], subscribers: Mapping[bytes, Sequence[str]]) -> None:
    """Move partitions one at a time from the member with the most to members with at least two fewer.

    The member with the most may be unable to give any away, if all other subscribers of its topics have at most one
    partition fewer. It stays stuck until one of them gives a partition away, or it receives another one.
    """
    held = {member_id: _Held(partitions) for member_id, partitions in targets.items()}
    count = {member_id: len(partitions) for member_id, partitions in targets.items()}
    stuck: set[str] = set()
    while candidates := [member_id for member_id in count if member_id not in stuck] if stuck else list(count):
        source = max(candidates, key=count.__getitem__)
        most = count[source]
        if most - min(count.values()) < 2:
            return
        for topic_id in held[source].topics:
            destination = min(subscribers[topic_id], key=count.__getitem__)
            if most - count[destination] >= 2:
                break
        else:
            stuck.add(source)
            continue
        partition = held[source].take(topic_id)
        targets[source].remove(partition)
        held[destination].add(partition)
        targets[destination].add(partition)
        count[source] -= 1
        count[destination] += 1
        stuck = {member_id for member_id in stuck - {destination} if count[member_id] != most + 1}


class _Held:
    """The partitions of a member by topic.

    Attributes:
        topics: The topics of these partitions, in order.
    """

    def __init__(self, partitions: Iterable[TopicIdPartition]) -> None:
        self._indexes: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(partitions):
            self._indexes.setdefault(topic_id, []).append(index)
        self.topics = list(self._indexes)

    def add(self, partition: TopicIdPartition) -> None:
        topic_id, index = partition
        if topic_id not in self._indexes:
            self._indexes[topic_id] = []
            insort(self.topics, topic_id)
        insort(self._indexes[topic_id], index)

    def take(self, topic_id: bytes) -> TopicIdPartition:
        """Remove a partition of a topic. Any partition would do; taking the highest keeps the result deterministic."""
        index = self._indexes[topic_id].pop()
        if not self._indexes[topic_id]:
            del self._indexes[topic_id]
            self.topics.remove(topic_id)
        return topic_id, index


def range_(specs: Mapping[str, MemberSpec], sizes: Mapping[bytes, int]) -> dict[str, TopicIdPartitions]:
    """Assign to each member a contiguous range of each topic's partitions.

    Topics with the same subscribers and number of partitions are co-partitioned: partition N of each has one owner.
    Members with an instance id come first, in order of instance id; the others follow in order of member id.
    """
    order = sorted(specs, key=lambda each: (specs[each].instance_id is None, specs[each].instance_id or "", each))
    targets: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in order}
    subscribers = _subscribers({member_id: specs[member_id] for member_id in order})
    for topic_id, size in sizes.items():
        candidates = subscribers.get(topic_id, ())
        start = 0
        # If there are more members than partitions, the last ones get none.
        for position, member_id in enumerate(candidates[:size]):
            share = size // len(candidates) + (position < size % len(candidates))
            targets[member_id].update((topic_id, index) for index in range(start, start + share))
            start += share
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


def _subscribers(specs: Mapping[str, MemberSpec]) -> dict[bytes, list[str]]:
    """Return the subscribers of each topic, in the order of ``specs``. Topics with the same subscribers share one
    list."""
    names = list(specs)
    # The members' numbers, grouped by subscription.
    kinds: dict[frozenset[bytes], list[int]] = {}
    for number, spec in enumerate(specs.values()):
        kinds.setdefault(spec.topics, []).append(number)
    by_topic: dict[bytes, list[int]] = {}
    members = list(kinds.values())
    for kind, topics in enumerate(kinds):
        for topic_id in topics:
            by_topic.setdefault(topic_id, []).append(kind)
    lists: dict[tuple[int, ...], list[str]] = {}
    found = {topic_id: tuple(of_topic) for topic_id, of_topic in by_topic.items()}
    for together in found.values():
        if together not in lists:
            numbers = sorted(chain.from_iterable(map(members.__getitem__, together)))
            lists[together] = [names[number] for number in numbers]
    return {topic_id: lists[together] for topic_id, together in found.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": range_}
"""The assignors by the names that members request. The first is the default."""
