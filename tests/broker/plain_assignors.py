"""The assignments of the server-side assignors, computed in the simplest way: partition by partition, looking at all
members."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions
from aiokproto.broker.groups.consumer.assignors import MemberSpec

Specs = Mapping[str, MemberSpec]
Targets = dict[str, set[TopicIdPartition]]


def uniform(specs: Specs, sizes: Mapping[bytes, int]) -> dict[str, TopicIdPartitions]:
    """Retain partitions, then give each free one to the subscriber with the fewest, then make single moves."""
    targets: Targets = {
        member_id: {place for place in spec.target if place[0] in spec.topics and place[1] < sizes[place[0]]}
        for member_id, spec in specs.items()
    }
    kinds = {spec.topics for spec in specs.values()}
    if len(kinds) == 1:
        _cut(targets, sum(sizes[topic_id] for topic_id in kinds.pop()))
    taken = {place for target in targets.values() for place in target}
    for topic_id in sorted(sizes, key=lambda each: len(_subscribers(specs, each))):
        for index in range(sizes[topic_id]):
            members = _subscribers(specs, topic_id)
            if members and (topic_id, index) not in taken:
                targets[_fewest(members, targets)].add((topic_id, index))
    while _moved(specs, targets):
        pass
    return {member_id: frozenset(target) for member_id, target in targets.items()}


def range_(specs: Specs, sizes: Mapping[bytes, int]) -> dict[str, TopicIdPartitions]:
    """Assign each topic in contiguous ranges; the first ones are longer by one."""
    order = sorted(specs, key=lambda each: (specs[each].instance_id is None, specs[each].instance_id or "", each))
    targets: Targets = {member_id: set() for member_id in order}
    for topic_id, size in sizes.items():
        members = [member_id for member_id in order if topic_id in specs[member_id].topics]
        left = list(range(size))
        for at, member_id in enumerate(members):
            share = size // len(members) + (at < size % len(members))
            targets[member_id] |= {(topic_id, index) for index in left[:share]}
            left = left[share:]
    return {member_id: frozenset(target) for member_id, target in targets.items()}


def _subscribers(specs: Specs, topic_id: bytes) -> list[str]:
    return [member_id for member_id, spec in specs.items() if topic_id in spec.topics]


def _fewest(members: list[str], targets: Targets) -> str:
    return min(members, key=lambda member_id: len(targets[member_id]))


def _cut(targets: Targets, total: int) -> None:
    share, remainder = divmod(total, len(targets))
    for target in sorted(targets.values(), key=len, reverse=True):
        kept = share + (remainder > 0)
        if len(target) > share:
            target.intersection_update(sorted(target)[:kept])
            remainder -= 1


def _moved(specs: Specs, targets: Targets) -> bool:
    for source in sorted(targets, key=lambda member_id: len(targets[member_id]), reverse=True):
        for topic_id in sorted({topic_id for topic_id, _ in targets[source]}):
            destination = _fewest(_subscribers(specs, topic_id), targets)
            if len(targets[source]) - len(targets[destination]) >= 2:
                moved = max(place for place in targets[source] if place[0] == topic_id)
                targets[source].remove(moved)
                targets[destination].add(moved)
                return True
    return False
