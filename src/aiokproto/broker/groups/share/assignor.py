"""The assignor of share groups: who should read which partition, which several members may do at once."""

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
    """Every partition at as many members, and every member with as many partitions, as the others; else as before.

    Where members want different topics, this is so for each topic by itself.

    Args:
        wishes: The ids of the topics that each member wants.
        before: What each was to have so far.
        assignable: The partitions of each topic that can be read.

    Returns:
        What each is to have. Every partition that somebody wants is at somebody; and where there are no more members
        than partitions, at one alone.
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
    members_per_partition = -(-len(members) // len(partitions))
    quota = _quotas(members_per_partition * len(partitions), members)
    assigned_count: Counter[TopicIdPartition] = Counter()
    assigned: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    for member_id, own in assigned.items():
        for partition in sorted(previous.get(member_id, frozenset()).intersection(partitions)):
            if len(own) < quota[member_id] and assigned_count[partition] < members_per_partition:
                own.add(partition)
                assigned_count[partition] += 1
    unfilled = deque(member_id for member_id, own in assigned.items() if len(own) < quota[member_id])
    for partition in partitions:
        for _ in range(members_per_partition - assigned_count[partition]):
            member_id_ = _next_member(unfilled, assigned, partition)
            # Who has room has this one already: a partition shared by one less does no harm.
            if member_id_ is None:
                break
            assigned[member_id_].add(partition)
            if len(assigned[member_id_]) == quota[member_id_]:
                unfilled.pop()
    return assigned


def _quotas(total: int, members: Sequence[str]) -> dict[str, int]:
    """So many for each member that they come to ``total``, and differ by one at most."""
    ends = [-(-total * count // len(members)) for count in range(len(members) + 1)]
    return {member_id: ends[at + 1] - ends[at] for at, member_id in enumerate(members)}


def _next_member(
    unfilled: deque[str], assigned: Mapping[str, set[TopicIdPartition]], partition: TopicIdPartition
) -> str | None:
    """Whoever waits longest of those without that partition; it is moved to the end."""
    for _ in range(len(unfilled)):
        unfilled.rotate(-1)
        if partition not in assigned[unfilled[-1]]:
            return unfilled[-1]
    return None
