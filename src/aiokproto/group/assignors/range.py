"""``range``: each member gets consecutive partitions of every topic, if possible in its own rack (KIP-881)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aiokproto.group.assignors.base import NO_RACKS, Assignment, Assignor, Members, Racks
from aiokproto.group.assignors.hash_order import member_order, string_order, topic_order
from aiokproto.group.assignors.racks import consumer_racks, partition_racks, use_rack_aware_assignment
from aiokproto.group.partition_list import PartitionList, TopicNames


class RangeAssignor(Assignor):
    """Assigns topic by topic: a member gets the same partition numbers of all topics, as joins require.

    Members are sorted; if the partitions cannot be split evenly, the first members get one more. With many topics that
    adds up for the first members, which is the price of keeping equal numbers together.

    If members and brokers report their racks, members first get partitions with a replica in their rack, within the
    same limits. In that case, topics with the same members and number of partitions are assigned together, by number.
    """

    name = "range"
    in_thread = True

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        racks_of_consumers = consumer_racks(members)
        order = member_order(members)
        names = TopicNames(topic_order((topic for topic, size in partitions.items() if size), members))
        topics = [
            _TopicAssignmentState(
                index, partitions[name], [member for member in order if name in members[member].topics]
            )
            for index, name in enumerate(names)
        ]
        assignment = {member: _Assigned(array("i"), array("i")) for member in members}
        by_rack = False
        if racks_of_consumers:
            for topic in topics:
                by_rack |= topic.set_racks(racks_of_consumers, partition_racks(racks, names[topic.index], topic.size))
        if by_rack:
            _assign_by_rack(topics, assignment)
        for topic in topics:
            topic.assign_ranges(assignment)
        return {member: _partitions(names, assignment[member], in_order=by_rack) for member in members}


class _Assigned(NamedTuple):
    """A member's assignment: the index of each partition's topic, and the number of each partition."""

    topic_indexes: array[int]
    numbers: array[int]


def _partitions(names: TopicNames, assigned: _Assigned, *, in_order: bool) -> PartitionList:
    if not in_order:
        return PartitionList(names, assigned.topic_indexes, assigned.numbers)
    by_name = sorted(range(len(names)), key=lambda index: string_order(names[index]))
    ranks = {index: rank for rank, index in enumerate(by_name)}
    pairs = sorted(
        zip(assigned.topic_indexes, assigned.numbers, strict=True), key=lambda pair: (ranks[pair[0]], pair[1])
    )
    return PartitionList(names, array("i", [index for index, _ in pairs]), array("i", [number for _, number in pairs]))


class _TopicAssignmentState:
    """A topic, its consumers in order, and how many more partitions each consumer may get.

    Attributes:
        index: The index of its name.
        size: The number of its partitions.
        consumers: The members that read it.
        consumer_racks: The racks of the consumers that have reported one.
        partition_racks: The racks of each partition's replicas; empty if no consumer has reported a rack.
        needs_rack_aware_assignment: Whether racks make a difference.
    """

    def __init__(self, index: int, size: int, consumers: Sequence[str]) -> None:
        self.index = index
        self.size = size
        self.consumers = consumers
        self.consumer_racks: Mapping[str, str] = {}
        self.partition_racks: Sequence[AbstractSet[str]] = ()
        self.needs_rack_aware_assignment = False
        self._unassigned: Sequence[int] = range(size)
        self._partitions_per_consumer, self._consumers_with_extra_partition = divmod(size, len(consumers))
        self._assigned_counts = dict.fromkeys(consumers, 0)

    def set_racks(self, consumer_racks: Mapping[str, str], partition_racks: Sequence[AbstractSet[str]]) -> bool:
        """Store the racks. Return whether they make a difference for this topic."""
        self.consumer_racks = {member: consumer_racks[member] for member in self.consumers if member in consumer_racks}
        if self.consumer_racks:
            self.partition_racks = partition_racks
            self.needs_rack_aware_assignment = use_rack_aware_assignment(self.consumer_racks.values(), partition_racks)
        return self.needs_rack_aware_assignment

    def max_assignable(self, member: str) -> int:
        """Return how many more partitions a member may get."""
        quota = self._partitions_per_consumer + (self._consumers_with_extra_partition > 0)
        return max(0, quota - self._assigned_counts[member])

    def racks_match(self, member: str, number: int) -> bool:
        """Return whether a partition has a replica in the member's rack. A member without a rack matches every
        partition."""
        return member not in self.consumer_racks or self.consumer_racks[member] in self.partition_racks[number]

    def assign(self, member: str, numbers: Sequence[int], assignment: Mapping[str, _Assigned]) -> None:
        """Assign unassigned partitions to a member."""
        assigned = assignment[member]
        assigned.topic_indexes.extend([self.index] * len(numbers))
        assigned.numbers.extend(numbers)
        self._assigned_counts[member] += len(numbers)
        if self._assigned_counts[member] > self._partitions_per_consumer:
            self._consumers_with_extra_partition -= 1

    def assign_ranges(self, assignment: Mapping[str, _Assigned], by_rack: bool = False) -> None:
        """Assign the unassigned partitions in order, member by member. With ``by_rack``, only assign partitions whose
        racks match."""
        for member in self.consumers:
            if not self._unassigned:
                break
            limit = self.max_assignable(member)
            if by_rack:
                numbers: Sequence[int] = [number for number in self._unassigned if self.racks_match(member, number)][
                    :limit
                ]
                self.remove(numbers)
            else:
                numbers, self._unassigned = self._unassigned[:limit], self._unassigned[limit:]
            if numbers:
                self.assign(member, numbers, assignment)

    def remove(self, numbers: Sequence[int]) -> None:
        """Mark partitions as assigned."""
        assigned = set(numbers)
        self._unassigned = [number for number in self._unassigned if number not in assigned]


def _assign_by_rack(topics: Sequence[_TopicAssignmentState], assignment: Mapping[str, _Assigned]) -> None:
    co_partitioned: dict[tuple[tuple[str, ...], int], list[_TopicAssignmentState]] = {}
    for topic in topics:
        co_partitioned.setdefault((tuple(topic.consumers), len(topic.partition_racks)), []).append(topic)
    for group in co_partitioned.values():
        if len(group) > 1:
            _assign_co_partitioned(group, assignment)
        elif group[0].needs_rack_aware_assignment:
            group[0].assign_ranges(assignment, by_rack=True)


def _assign_co_partitioned(topics: Sequence[_TopicAssignmentState], assignment: Mapping[str, _Assigned]) -> None:
    """Assign all topics' partitions with the same number to the first member whose rack matches all of them."""
    # All topics have the same size and consumers, and a member gets the same number of partitions of each. So the first
    # topic shows which members can take more, for all topics.
    first = topics[0]
    assigned: list[int] = []
    for number in range(len(first.partition_racks)):
        for member in first.consumers:
            if first.max_assignable(member) and all(topic.racks_match(member, number) for topic in topics):
                for topic in topics:
                    topic.assign(member, [number], assignment)
                assigned.append(number)
                break
    for topic in topics:
        topic.remove(assigned)
