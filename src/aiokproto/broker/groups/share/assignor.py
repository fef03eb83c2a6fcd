"""The "simple" assignor of share groups: which members should read which partition.

Unlike in consumer groups, several members can read the same partition. There are two rules: every partition that a
member subscribes to has a reader, and both the partitions of each member and the readers of each partition are as even
as possible. Within these rules, assignments change as little as possible.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions

NAME = "simple"


def simple(
    subscriptions: Mapping[str, frozenset[bytes]],
    previous: Mapping[str, TopicIdPartitions],
    assignable: Mapping[bytes, Collection[int]],
) -> dict[str, TopicIdPartitions]:
    """Assign partitions evenly: all at once if the subscriptions are the same, otherwise topic by topic.

    Args:
        subscriptions: The ids of the topics that each member subscribes to.
        previous: The last target assignment.
        assignable: The partitions of each topic that have a state at the share coordinator.

    Returns:
        The target assignment. A partition has one reader if there are at most as many members as partitions.
    """
    if len(set(subscriptions.values())) <= 1:
        wanted = next(iter(subscriptions.values()), frozenset())
        pools = [
            (list(subscriptions), [(topic_id, index) for topic_id in wanted for index in assignable.get(topic_id, ())])
        ]
    else:
        pools = [
            (
                [member_id for member_id, subscription in subscriptions.items() if topic_id in subscription],
                [(topic_id, i) for i in indexes],
            )
            for topic_id, indexes in assignable.items()
        ]
    targets: dict[str, TopicIdPartitions] = dict.fromkeys(subscriptions, frozenset())
    for members, partitions in pools:
        if members and partitions:
            for member_id, assigned in _distribute(members, sorted(partitions), previous).items():
                targets[member_id] |= assigned
    return targets


def _distribute(
    members: Sequence[str], partitions: Sequence[TopicIdPartition], previous: Mapping[str, TopicIdPartitions]
) -> dict[str, set[TopicIdPartition]]:
    # Rounded up, so that no member is left without a partition.
    members_per_partition = -(-len(members) // len(partitions))
    quota = _quotas(members_per_partition * len(partitions), members)
    assigned_count: Counter[TopicIdPartition] = Counter()
    assigned: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    for member_id, own in assigned.items():
        for partition in sorted(previous.get(member_id, frozenset()).intersection(partitions)):
            # A partition stays only within both limits: after a member joined, the previous assignment may be uneven.
            if len(own) < quota[member_id] and assigned_count[partition] < members_per_partition:
                own.add(partition)
                assigned_count[partition] += 1
    unfilled = deque(member_id for member_id, own in assigned.items() if len(own) < quota[member_id])
    for partition in partitions:
        for _ in range(members_per_partition - assigned_count[partition]):
            chosen = _next_member(unfilled, assigned, partition)
            # All members below their quota already have this partition, and can do with one reader fewer.
            if chosen is None:
                break
            assigned[chosen].add(partition)
            # _next_member() has moved the member to the right end.
            if len(assigned[chosen]) == quota[chosen]:
                unfilled.pop()
    return assigned


def _quotas(total: int, members: Sequence[str]) -> dict[str, int]:
    """Return a quota for each member. The quotas add up to ``total`` and differ by at most one."""
    ends = [-(-total * count // len(members)) for count in range(len(members) + 1)]
    return {member_id: ends[index + 1] - ends[index] for index, member_id in enumerate(members)}


def _next_member(
    unfilled: deque[str], assigned: Mapping[str, set[TopicIdPartition]], partition: TopicIdPartition
) -> str | None:
    """Rotate to the next member that doesn't have this partition, and return it. Return None if all members have it."""
    for _ in range(len(unfilled)):
        unfilled.rotate(-1)
        if partition not in assigned[unfilled[-1]]:
            return unfilled[-1]
    return None
