"""``range``: each member gets consecutive partitions of every topic, if possible in its own rack (KIP-881)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from aiokproto.group.assignors.base import NO_RACKS, Assignment, Assignor, Members, Racks
from aiokproto.group.assignors.hash_order import member_order, string_order, topic_order
from aiokproto.group.assignors.racks import member_racks, of_topic, racks_matter
from aiokproto.types import TopicPartition


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
        order = member_order(members)
        near = member_racks(members)
        topics = [
            _Topic(topic, partitions[topic], [member for member in order if topic in members[member].topics])
            for topic in topic_order((topic for topic, size in partitions.items() if size), members)
        ]
        result: Assignment = {member: [] for member in members}
        by_rack = [topic for topic in topics if topic.look_at_racks(near, racks)]
        if by_rack:
            _assign_by_rack(topics, result)
        for topic in topics:
            topic.assign_ranges(result)
        if by_rack:
            for given in result.values():
                given.sort(key=lambda partition: (string_order(partition.topic), partition.partition))
        return result


class _Topic:
    """A topic, its takers in order, and how many partitions each may still get.

    Attributes:
        takers: The members that read it.
        near: The racks of those of them that have named theirs.
        racks: The replicas' racks of each partition; empty if no taker has named its rack.
        matters: Whether racks make a difference.
    """

    def __init__(self, name: str, size: int, takers: Sequence[str]) -> None:
        self.name = name
        self.size = size
        self.takers = takers
        self.near: Mapping[str, str] = {}
        self.racks: Sequence[AbstractSet[str]] = ()
        self.matters = False
        self._free = list(range(size))
        self._each, self._extra = divmod(size, len(takers))
        self._given = dict.fromkeys(takers, 0)

    def look_at_racks(self, near: Mapping[str, str], racks: Racks) -> bool:
        """Take note of the racks; return whether they make a difference for this topic."""
        self.near = {member: near[member] for member in self.takers if member in near} if near else near
        if self.near:
            self.racks = of_topic(racks, self.name, self.size)
            self.matters = racks_matter(self.near.values(), self.racks)
        return self.matters

    def room(self, member: str) -> int:
        """Return how many more partitions a member may get."""
        return max(0, self._each + (self._extra > 0) - self._given[member])

    def matches(self, member: str, number: int) -> bool:
        """Return whether a partition has a replica in the member's rack; any will do if it has not named one."""
        return member not in self.near or self.near[member] in self.racks[number]

    def give(self, member: str, numbers: Sequence[int], result: Assignment) -> None:
        """Assign free partitions."""
        result[member] += [TopicPartition(self.name, number) for number in numbers]
        self._given[member] += len(numbers)
        if self._given[member] > self._each:
            self._extra -= 1

    def assign_ranges(self, result: Assignment, by_rack: bool = False) -> None:
        """Assign free partitions from the first to the last, member by member; by rack only those that match."""
        for member in self.takers:
            room = self.room(member)
            if not (room and self._free):
                continue
            if by_rack:
                numbers = [number for number in self._free if self.matches(member, number)][:room]
                self.remove(numbers)
            else:
                numbers, self._free = self._free[:room], self._free[room:]
            if numbers:
                self.give(member, numbers, result)

    def remove(self, numbers: Sequence[int]) -> None:
        """Mark partitions as no longer free."""
        given = set(numbers)
        self._free = [number for number in self._free if number not in given]


def _assign_by_rack(topics: Sequence[_Topic], result: Assignment) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((tuple(topic.takers), len(topic.racks)), []).append(topic)
    for together in alike.values():
        if len(together) > 1:
            _assign_together(together, result)
        elif together[0].matters:
            together[0].assign_ranges(result, by_rack=True)


def _assign_together(topics: Sequence[_Topic], result: Assignment) -> None:
    """Assign the partitions of one number, of all topics, to the first member whose rack matches them all."""
    # All topics have the same size and takers, and members get the same number of partitions of each: one says for all
    # who has room.
    first = topics[0]
    taken: list[int] = []
    for number in range(len(first.racks)):
        for member in first.takers:
            if first.room(member) and all(topic.matches(member, number) for topic in topics):
                for topic in topics:
                    topic.give(member, [number], result)
                taken.append(number)
                break
    for topic in topics:
        topic.remove(taken)
