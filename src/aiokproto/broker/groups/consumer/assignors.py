"""The assignors that the coordinator has: who should have which partition.

Both are pure functions of the members' topics, of the partitions these have, and of the last target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions


class MemberSpec(NamedTuple):
    """What an assignor knows of a member: the ids of its topics, what it was to have so far, its instance id."""

    topics: frozenset[bytes]
    target: TopicIdPartitions = frozenset()
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], dict[str, TopicIdPartitions]]
"""Members' wishes by id, and topics' numbers of partitions → the members' targets."""


def uniform(specs: Mapping[str, MemberSpec], sizes: Mapping[bytes, int]) -> dict[str, TopicIdPartitions]:
    """As even as the subscriptions allow, and as much as possible stays where it is."""
    targets: dict[str, set[TopicIdPartition]] = {
        member_id: {place for place in spec.target if place[0] in spec.topics and place[1] < sizes.get(place[0], 0)}
        for member_id, spec in specs.items()
    }
    interested: dict[bytes, list[str]] = {}
    for member_id, spec in specs.items():
        for topic_id in spec.topics:
            interested.setdefault(topic_id, []).append(member_id)
    if len({spec.topics for spec in specs.values()}) == 1:
        _trim(targets, sum(sizes.get(topic_id, 0) for topic_id in interested))
    taken = {place for target in targets.values() for place in target}
    # The topics that few can read come first: those who read everything have a choice later on.
    for topic_id in sorted(sizes, key=lambda topic_id: len(interested.get(topic_id, ()))):
        for index in range(sizes[topic_id]):
            readers = interested.get(topic_id)
            if readers and (topic_id, index) not in taken:
                targets[min(readers, key=lambda member_id: len(targets[member_id]))].add((topic_id, index))
    _level(targets, interested)
    return {member_id: frozenset(places) for member_id, places in targets.items()}


def _trim(targets: Mapping[str, set[TopicIdPartition]], total: int) -> None:
    """Take from those who have more than their share of ``total``; of the odd ones some may stay with who has most."""
    share, odd = divmod(total, len(targets))
    for target in sorted(targets.values(), key=lambda each: -len(each)):
        if len(target) <= share:
            break
        # The first stay: they were given first.
        target.difference_update(sorted(target)[share + (odd > 0) :])
        odd -= 1


def _level(targets: dict[str, set[TopicIdPartition]], interested: Mapping[bytes, list[str]]) -> None:
    """Move partitions, each from the member that has most, to members that have at least two less."""
    while (move := _next_move(targets, interested)) is not None:
        place, giver, taker = move
        targets[giver].remove(place)
        targets[taker].add(place)


def _next_move(
    targets: Mapping[str, set[TopicIdPartition]], interested: Mapping[bytes, list[str]]
) -> tuple[TopicIdPartition, str, str] | None:
    least = min(map(len, targets.values()), default=0)
    for giver in sorted(targets, key=lambda member_id: -len(targets[member_id])):
        if len(targets[giver]) - least < 2:
            break
        for topic_id in sorted({topic_id for topic_id, _ in targets[giver]}):
            taker = min(interested[topic_id], key=lambda member_id: len(targets[member_id]))
            if len(targets[giver]) - len(targets[taker]) >= 2:
                # The last one: what remains is what was given first.
                return max(place for place in targets[giver] if place[0] == topic_id), giver, taker
    return None


def range_(specs: Mapping[str, MemberSpec], sizes: Mapping[bytes, int]) -> dict[str, TopicIdPartitions]:
    """Of each topic every member gets one run of partitions, the same one in all topics of the same size and readers.

    Members are ordered by instance id, those without one behind by member id.
    """
    order = sorted(specs, key=lambda each: (specs[each].instance_id is None, specs[each].instance_id or "", each))
    targets: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in order}
    for topic_id, size in sizes.items():
        readers = [member_id for member_id in order if topic_id in specs[member_id].topics]
        start = 0
        for at, member_id in enumerate(readers):
            share = size // len(readers) + (at < size % len(readers))
            targets[member_id].update((topic_id, index) for index in range(start, start + share))
            start += share
    return {member_id: frozenset(places) for member_id, places in targets.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": range_}
"""By the names that members ask for; the first is used where none does."""
