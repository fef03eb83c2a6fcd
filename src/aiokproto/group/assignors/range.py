"""``range``: each member gets consecutive partitions of every topic, if possible in its own rack (KIP-881)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aiokproto.group.assignors.base import NO_RACKS, Assignment, Assignor, Members, Racks
from aiokproto.group.assignors.hash_order import member_order, string_order, topic_order
from aiokproto.group.assignors.racks import member_racks, of_topic, racks_matter
from aiokproto.group.partition_list import PartitionList, TopicNames


class RangeAssignor(Assignor):
    """Assigns topic by topic, so that one member gets the same partition numbers of all topics, as joins need.

    Members are sorted; the first ones get one more where the partitions cannot be split evenly. With many topics that
    adds up for the first members: the price of keeping equal numbers together.

    If members and brokers name their racks, members first get partitions with a replica in their rack, within the same
    limits. Topics with the same members and number of partitions are then assigned together, by number.
    """

    name = "range"
    in_thread = True

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        near = member_racks(members)
        order = member_order(members)
        names = TopicNames(topic_order((topic for topic, size in partitions.items() if size), members))
        topics = [
            _Topic(place, partitions[name], [member for member in order if name in members[member].topics])
            for place, name in enumerate(names)
        ]
        given = {member: _Given(array("i"), array("i")) for member in members}
        by_rack = False
        if near:
            for topic in topics:
                by_rack |= topic.look_at_racks(near, of_topic(racks, names[topic.place], topic.size))
        if by_rack:
            _assign_by_rack(topics, given)
        for topic in topics:
            topic.assign_ranges(given)
        return {member: _partitions(names, given[member], in_order=by_rack) for member in members}


class _Given(NamedTuple):
    """What a member is given: the places of the topics, and the numbers of the partitions."""

    places: array[int]
    numbers: array[int]


def _partitions(names: TopicNames, given: _Given, *, in_order: bool) -> PartitionList:
    if not in_order:
        return PartitionList(names, given.places, given.numbers)
    ranks = {
        place: rank for rank, place in enumerate(sorted(range(len(names)), key=lambda at: string_order(names[at])))
    }
    pairs = sorted(zip(given.places, given.numbers, strict=True), key=lambda pair: (ranks[pair[0]], pair[1]))
    return PartitionList(names, array("i", [place for place, _ in pairs]), array("i", [number for _, number in pairs]))


class _Topic:
    """A topic, its takers in order, and how many partitions each may still get.

    Attributes:
        place: The place of its name.
        size: The number of its partitions.
        takers: The members that read it.
        near: The racks of those of them that have named theirs.
        racks: The replicas' racks of each partition; empty if no taker has named its rack.
        matters: Whether racks make a difference.
    """

    def __init__(self, place: int, size: int, takers: Sequence[str]) -> None:
        self.place = place
        self.size = size
        self.takers = takers
        self.near: Mapping[str, str] = {}
        self.racks: Sequence[AbstractSet[str]] = ()
        self.matters = False
        self._free: Sequence[int] = range(size)
        self._each, self._extra = divmod(size, len(takers))
        self._given = dict.fromkeys(takers, 0)

    def look_at_racks(self, near: Mapping[str, str], racks: Sequence[AbstractSet[str]]) -> bool:
        """Take note of the racks; return whether they make a difference for this topic."""
        self.near = {member: near[member] for member in self.takers if member in near}
        if self.near:
            self.racks = racks
            self.matters = racks_matter(self.near.values(), racks)
        return self.matters

    def room(self, member: str) -> int:
        """Return how many more partitions a member may get."""
        return max(0, self._each + (self._extra > 0) - self._given[member])

    def matches(self, member: str, number: int) -> bool:
        """Return whether a partition has a replica in the member's rack; any will do if it has not named one."""
        return member not in self.near or self.near[member] in self.racks[number]

    def give(self, member: str, numbers: Sequence[int], given: Mapping[str, _Given]) -> None:
        """Assign free partitions."""
        result = given[member]
        result.places.extend([self.place] * len(numbers))
        result.numbers.extend(numbers)
        self._given[member] += len(numbers)
        if self._given[member] > self._each:
            self._extra -= 1

    def assign_ranges(self, given: Mapping[str, _Given], by_rack: bool = False) -> None:
        """Assign free partitions from the first to the last, member by member; by rack only those that match."""
        for member in self.takers:
            if not self._free:
                break
            room = self.room(member)
            if by_rack:
                numbers: Sequence[int] = [number for number in self._free if self.matches(member, number)][:room]
                self.remove(numbers)
            else:
                numbers, self._free = self._free[:room], self._free[room:]
            if numbers:
                self.give(member, numbers, given)

    def remove(self, numbers: Sequence[int]) -> None:
        """Mark partitions as no longer free."""
        given = set(numbers)
        self._free = [number for number in self._free if number not in given]


def _assign_by_rack(topics: Sequence[_Topic], given: Mapping[str, _Given]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((tuple(topic.takers), len(topic.racks)), []).append(topic)
    for together in alike.values():
        if len(together) > 1:
            _assign_together(together, given)
        elif together[0].matters:
            together[0].assign_ranges(given, by_rack=True)


def _assign_together(topics: Sequence[_Topic], given: Mapping[str, _Given]) -> None:
    """Assign the partitions of one number, of all topics, to the first member whose rack matches them all."""
    # All topics have the same size and takers, and members get the same number of partitions of each: one says for all
    # who has room.
    first = topics[0]
    taken: list[int] = []
    for number in range(len(first.racks)):
        for member in first.takers:
            if first.room(member) and all(topic.matches(member, number) for topic in topics):
                for topic in topics:
                    topic.give(member, [number], given)
                taken.append(number)
                break
    for topic in topics:
        topic.remove(taken)
