"""The server-side assignors of consumer groups: "uniform" and "range".

Both are pure functions of the members' subscriptions, the topics' numbers of partitions, and the last target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    Four steps: retain the last target as far as it is still valid; if all subscriptions are the same, take what exceeds
    a member's share; assign the rest to the members with the fewest partitions; balance what is left uneven.
    """
    targets: dict[str, set[TopicIdPartition]] = {
        member_id: {
            partition
            for partition in spec.target
            if partition[0] in spec.topics and partition[1] < sizes.get(partition[0], 0)
        }
        for member_id, spec in specs.items()
    }
    subscribers: dict[bytes, list[str]] = {}
    for member_id, spec in specs.items():
        for topic_id in spec.topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    # With different subscriptions no member has a fixed share; _balance() moves what is uneven.
    if len({spec.topics for spec in specs.values()}) == 1:
        _shrink_to_share(targets, sum(sizes.get(topic_id, 0) for topic_id in subscribers))
    taken = {partition for target in targets.values() for partition in target}
    # Topics with the fewest subscribers first: members with more subscriptions can be balanced with other topics later.
    for topic_id in sorted(sizes, key=lambda topic_id: len(subscribers.get(topic_id, ()))):
        for index in range(sizes[topic_id]):
            candidates = subscribers.get(topic_id)
            if candidates and (topic_id, index) not in taken:
                targets[min(candidates, key=lambda member_id: len(targets[member_id]))].add((topic_id, index))
    # Each move lowers the difference between two members, so that the loop ends.
    _balance(targets, subscribers)
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


def _shrink_to_share(targets: Mapping[str, set[TopicIdPartition]], total: int) -> None:
    """Take partitions from members above their share of ``total``. The largest retain the remainder of the division."""
    share, remainder = divmod(total, len(targets))
    for target in sorted(targets.values(), key=lambda each: -len(each)):
        if len(target) <= share:
            break
        # A fixed order, so that the result does not depend on the order of a set.
        target.difference_update(sorted(target)[share + (remainder > 0) :])
        remainder -= 1


def _balance(targets: dict[str, set[TopicIdPartition]], subscribers: Mapping[bytes, list[str]]) -> None:
    """Move single partitions from the member with the most to members with at least two fewer."""
    while (move := _next_move(targets, subscribers)) is not None:
        partition, source, destination = move
        targets[source].remove(partition)
        targets[destination].add(partition)


def _next_move(
    targets: Mapping[str, set[TopicIdPartition]], subscribers: Mapping[bytes, list[str]]
) -> tuple[TopicIdPartition, str, str] | None:
    least = min(map(len, targets.values()), default=0)
    for source in sorted(targets, key=lambda member_id: -len(targets[member_id])):
        if len(targets[source]) - least < 2:
            break
        for topic_id in sorted({topic_id for topic_id, _ in targets[source]}):
            destination = min(subscribers[topic_id], key=lambda member_id: len(targets[member_id]))
            if len(targets[source]) - len(targets[destination]) >= 2:
                # Any would do; the highest keeps the result deterministic.
                return max(partition for partition in targets[source] if partition[0] == topic_id), source, destination
    return None


def range_(specs: Mapping[str, MemberSpec], sizes: Mapping[bytes, int]) -> dict[str, TopicIdPartitions]:
    """Assign to each member a contiguous range of each topic's partitions.

    Topics with the same subscribers and number of partitions are co-partitioned: partition N of each has one owner.
    Members are ordered by instance id, then those without one by member id.
    """
    order = sorted(specs, key=lambda each: (specs[each].instance_id is None, specs[each].instance_id or "", each))
    targets: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in order}
    for topic_id, size in sizes.items():
        candidates = [member_id for member_id in order if topic_id in specs[member_id].topics]
        start = 0
        for at, member_id in enumerate(candidates):
            share = size // len(candidates) + (at < size % len(candidates))
            targets[member_id].update((topic_id, index) for index in range(start, start + share))
            start += share
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": range_}
"""The assignors by name, as members request them. The first is the default."""
