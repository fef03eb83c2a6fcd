"""The sticky assignment when members read different topics.

The steps, in order:

1. Each member keeps the partitions it owns. If racks matter (KIP-881), it keeps only partitions with a replica in its
    rack.
2. Each unassigned partition goes to the member with the fewest partitions among those that read its topic; if there are
    several, to the first by name. Topics with the fewest consumers come first, because they leave the least choice. If
    racks matter, members in a partition's racks come first.
3. Partitions move from members with more to members with fewer, while one has at least two more than the other.
    Partitions that were unassigned move first, unless step 1 took partitions away. If a member claimed a partition in
    an earlier generation, the partition goes back to that member instead. If all this doesn't improve the balance, it
    is undone.

If a partition should move from A to B, and another partition of the same topic has moved from B to A before, that one
moves back instead: in the end, neither has to move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import groupby

from aiokproto.group.assignors.base import Members
from aiokproto.group.assignors.hash_order import bucket, capacity_for, partition_hash, string_hash, string_order
from aiokproto.group.assignors.member_data import CurrentAssignment, Numbering
from aiokproto.group.assignors.racks import RackInfo

_MAX_PASSES = 1000
"""Maximum number of passes over all partitions to find moves that help. The limit exists because moving back another
partition can make the balance worse, so for some claims the search might never end. A few passes are normally
enough."""

Heap = list[tuple[int, int, str]]
"""Members sorted by their number of partitions, then by name: number, rank of the name, member."""


class GeneralAssignmentBuilder:
    """Assigns partitions to members that read different topics.

    Attributes:
        assignment: Member id → the numbers of its partitions. The dicts are ordered sets.
    """

    def __init__(self, numbering: Numbering, members: Members, current: CurrentAssignment, rack_info: RackInfo) -> None:
        self.assignment: dict[str, dict[int, None]] = {}
        self._numbering = numbering
        self._members = members
        self._current = current
        self._rack_info = rack_info
        self._owner: dict[int, str] = {}
        self._ranks = {member: rank for rank, member in enumerate(sorted(members, key=string_order))}
        self._consumers = [
            [member for member in members if topic in members[member].topics] for topic in numbering.topics
        ]
        self._movements = _PartitionMovements(numbering)

    def build(self) -> None:
        """Compute :attr:`assignment`."""
        kept_all = self._assign_owned()
        initializing = not any(self.assignment.values())
        fewest_consumers_first = sorted(
            range(len(self._consumers)), key=lambda index: (len(self._consumers[index]), index)
        )
        all_partitions = [number for index in fewest_consumers_first for number in self._numbering.of_topic(index)]
        unassigned = [number for number in all_partitions if number not in self._owner]
        rest: Iterable[int] = unassigned
        if self._rack_info:
            rest = self._assign(rest, self._rack_info.consumer_racks)
        self._assign(rest, {})
        before = {member: dict(numbers) for member, numbers in self.assignment.items()}
        owner_before = dict(self._owner)
        if kept_all:
            self._reassign(unassigned)
        reassigned = self._reassign(all_partitions)
        if reassigned and not initializing and self._balance_score(self.assignment) >= self._balance_score(before):
            self.assignment, self._owner = before, owner_before

    def _assign_owned(self) -> bool:
        """Let members keep the partitions they own. Return whether they keep all of them."""
        kept_all = True
        for member, owned in self._current.owned.items():
            topics, width = self._members[member].topics, len(self._numbering.topics)
            kept = [
                number
                for number in owned
                if self._numbering.topics[number % width] in topics
                and not self._rack_info.racks_mismatch(member, number)
            ]
            kept_all = kept_all and len(kept) == len(owned)
            self.assignment[member] = dict.fromkeys(kept)
            self._owner.update(dict.fromkeys(kept, member))
        return kept_all

    def _by_topic(self, numbers: Iterable[int]) -> Iterator[tuple[list[str], Iterator[int]]]:
        """Return the consumers and the partitions of each topic."""
        width = len(self._numbering.topics)
        for topic_index, group in groupby(numbers, key=lambda number: number % width):
            yield self._consumers[topic_index], group

    def _assign(self, numbers: Iterable[int], racks: Mapping[str, str]) -> list[int]:
        """Assign each partition to the member with the fewest partitions. Return the partitions that no member could
        get.

        Args:
            numbers: The partitions.
            racks: If not empty, members get only partitions in their rack.
        """
        left = []
        for consumers, group in self._by_topic(numbers):
            # A topic's consumers are the only members that get partitions while it's being assigned, so one heap per
            # rack is enough.
            heaps: dict[str | None, Heap] = {}
            for member in consumers:
                entry = (len(self.assignment[member]), self._ranks[member], member)
                heaps.setdefault(racks.get(member), []).append(entry)
            for heap in heaps.values():
                heapify(heap)
            for number in group:
                partition_racks = self._rack_info.partition_racks[number] if racks else ()
                heap_of_least = min((heaps[rack] for rack in (None, *partition_racks) if rack in heaps), default=None)
                if heap_of_least is None:
                    left.append(number)
                    continue
                size, rank, member = heap_of_least[0]
                heapreplace(heap_of_least, (size + 1, rank, member))
                self.assignment[member][number] = None
                self._owner[number] = member
        return left

    def _reassign(self, numbers: Sequence[int]) -> bool:
        """Move partitions while that helps. Return whether any was moved."""
        assignment, owner, previous = self.assignment, self._owner, self._current.previous
        any_moved = False
        for _ in range(_MAX_PASSES):
            moved = False
            for consumers, group in self._by_topic(numbers):
                if len(consumers) < 2:
                    continue
                least = self._least_loaded(consumers)
                for number in group:
                    size = len(assignment[owner[number]])
                    former = previous.get(number)
                    if former is not None and former in consumers and size > len(assignment[former]) + 1:
                        self._move(number, former)
                    elif size > len(assignment[least]) + 1:
                        self._move(number, least)
                    else:
                        continue
                    moved = any_moved = True
                    least = self._least_loaded(consumers)
            if not moved:
                break
        return any_moved

    def _least_loaded(self, consumers: Iterable[str]) -> str:
        return min(consumers, key=lambda member: (len(self.assignment[member]), self._ranks[member]))

    def _move(self, number: int, target: str) -> None:
        number = self._movements.actual_partition_to_move(number, self._owner[number], target)
        source = self._owner[number]
        self._movements.move(number, source, target)
        del self.assignment[source][number]
        self.assignment[target][number] = None
        self._owner[number] = target

    def _balance_score(self, assignment: Mapping[str, Mapping[int, None]]) -> int:
        """Return the sum of the differences in load between all pairs of members. Only members that share a topic with
        others count."""
        sharing = {member for consumers in self._consumers if len(consumers) > 1 for member in consumers}
        loads = sorted(len(assignment[member]) for member in sharing)
        return sum(load * (2 * index + 1 - len(loads)) for index, load in enumerate(loads))


class _PartitionMovements:
    """The moved partitions, and the members they moved between. A partition that moved back counts as not moved.

    Java takes *any* of the partitions that moved between two members: the first in a hash table. Which partition that
    is depends on the size of the table: see :mod:`~aiokproto.group.assignors.hash_order`.
    """

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._moved: dict[int, tuple[str, str]] = {}
        self._by_pair: dict[tuple[int, str, str], dict[int, None]] = {}
        self._capacity: dict[tuple[int, str, str], int] = {}

    def move(self, number: int, source: str, target: str) -> None:
        """Record that a partition moves."""
        topic_index = number % len(self._numbering.topics)
        if number in self._moved:
            source, last_target = self._moved.pop(number)
            last_pair = (topic_index, source, last_target)
            del self._by_pair[last_pair][number]
            if not self._by_pair[last_pair]:
                del self._by_pair[last_pair], self._capacity[last_pair]
            if source == target:
                return
        pair = (topic_index, source, target)
        self._moved[number] = (source, target)
        numbers = self._by_pair.setdefault(pair, {})
        numbers[number] = None
        self._capacity[pair] = capacity_for(len(numbers), self._capacity.get(pair, capacity_for(1)))

    def actual_partition_to_move(self, number: int, source: str, target: str) -> int:
        """Return the partition to move back instead of moving this one; this one if there is none."""
        width = len(self._numbering.topics)
        topic_index = number % width
        if number in self._moved:
            source = self._moved[number][0]
        pair = (topic_index, target, source)
        numbers = self._by_pair.get(pair)
        if not numbers:
            return number
        topic, capacity = string_hash(self._numbering.topics[topic_index]), self._capacity[pair]
        return min(numbers, key=lambda moved: bucket(partition_hash(topic, moved // width), capacity))
