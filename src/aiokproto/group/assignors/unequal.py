"""The sticky distribution among members that read different topics.

In this order:

1. Each member keeps what it owns, but nothing that is far from it, if racks matter (KIP-881).
2. Each free partition goes to the member with the fewest partitions among those that read its topic (the first by name,
   if several have as few): topics with the fewest readers first, since they have the least choice. If racks matter,
   members that are near come first.
3. Partitions move from members with more to members with less, while the one has at least two more than the other.
   Those that were free are moved first, unless step 1 took partitions away. If a partition was claimed in an earlier
   generation, it rather goes back there. If the whole does not improve the balance, it is undone.

If a partition moves from A to B, and another one of the same topic has moved from B to A before, that one moves back
instead: neither has to move in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import groupby

from aiokproto.group.assignors.base import Members
from aiokproto.group.assignors.claims import Numbering, Settled
from aiokproto.group.assignors.hash_order import bucket, capacity_for, partition_hash, string_hash, string_order
from aiokproto.group.assignors.near import Near

_PASSES = 1000
"""How often all partitions are gone through for moves that help: a limit, since moving back another partition can make
the balance worse, so that nothing says that it ends whatever members claim. A few times are enough."""

Heap = list[tuple[int, int, str]]
"""Members by the number of their partitions, then by name: number, place of the name, member."""


class UnequalSubscriptions:
    """Distributes partitions among members that read different topics.

    Attributes:
        given: Member id → the numbers of its partitions. The dicts are ordered sets.
    """

    def __init__(self, numbering: Numbering, members: Members, settled: Settled, near: Near) -> None:
        self.given: dict[str, dict[int, None]] = {}
        self._numbering = numbering
        self._members = members
        self._settled = settled
        self._near = near
        self._owner: dict[int, str] = {}
        self._names = {member: place for place, member in enumerate(sorted(members, key=string_order))}
        self._takers = [[member for member in members if topic in members[member].topics] for topic in numbering.topics]
        self._moves = _Moves(numbering)

    def run(self) -> None:
        """Compute :attr:`given`."""
        complete = self._keep()
        starting = not any(self.given.values())
        everything = [
            number
            for place in sorted(range(len(self._takers)), key=lambda place: (len(self._takers[place]), place))
            for number in self._numbering.of_topic(place)
        ]
        free = [number for number in everything if number not in self._owner]
        rest: Iterable[int] = free
        if self._near:
            rest = self._hand_out(rest, self._near.of_members)
        self._hand_out(rest, {})
        before, owner = {member: dict(numbers) for member, numbers in self.given.items()}, dict(self._owner)
        if complete:
            self._balance(free)
        if self._balance(everything) and not starting and self._score(self.given) >= self._score(before):
            self.given, self._owner = before, owner

    def _keep(self) -> bool:
        """Let members keep what they own; return whether nothing had to be taken away."""
        complete = True
        for member, owned in self._settled.owned.items():
            topics, width = self._members[member].topics, len(self._numbering.topics)
            kept = [
                number
                for number in owned
                if self._numbering.topics[number % width] in topics and not self._near.far(member, number)
            ]
            complete = complete and len(kept) == len(owned)
            self.given[member] = dict.fromkeys(kept)
            self._owner.update(dict.fromkeys(kept, member))
        return complete

    def _by_topic(self, numbers: Iterable[int]) -> Iterator[tuple[list[str], Iterator[int]]]:
        """Return the readers of each topic, with its partitions."""
        width = len(self._numbering.topics)
        for place, group in groupby(numbers, key=lambda number: number % width):
            yield self._takers[place], group

    def _hand_out(self, numbers: Iterable[int], racks: Mapping[str, str]) -> list[int]:
        """Give each partition to the member with the fewest; return those for which there was none.

        Args:
            numbers: The partitions.
            racks: Members get only what is in their rack.
        """
        left = []
        for takers, group in self._by_topic(numbers):
            # While a topic is handed out, only its readers get partitions: a heap for each rack is all it takes.
            heaps: dict[str | None, Heap] = {}
            for member in takers:
                heaps.setdefault(racks.get(member), []).append((len(self.given[member]), self._names[member], member))
            for heap in heaps.values():
                heapify(heap)
            for number in group:
                near = self._near.of_partitions[number] if racks else ()
                chosen = min((heaps[rack] for rack in (None, *near) if rack in heaps), default=None)
                if chosen is None:
                    left.append(number)
                    continue
                size, place, member = chosen[0]
                heapreplace(chosen, (size + 1, place, member))
                self.given[member][number] = None
                self._owner[number] = member
        return left

    def _balance(self, numbers: Sequence[int]) -> bool:
        """Move partitions while that helps; return whether any was moved."""
        given, owner, stale = self.given, self._owner, self._settled.stale
        moved_any = False
        for _ in range(_PASSES):
            moved = False
            for takers, group in self._by_topic(numbers):
                if len(takers) < 2:
                    continue
                least = self._least(takers)
                for number in group:
                    size = len(given[owner[number]])
                    before = stale.get(number)
                    if before is not None and before in takers and size > len(given[before]) + 1:
                        self._move(number, before)
                    elif size > len(given[least]) + 1:
                        self._move(number, least)
                    else:
                        continue
                    moved = moved_any = True
                    least = self._least(takers)
            if not moved:
                break
        return moved_any

    def _least(self, takers: Iterable[str]) -> str:
        return min(takers, key=lambda member: (len(self.given[member]), self._names[member]))

    def _move(self, number: int, target: str) -> None:
        number = self._moves.substitute(number, self._owner[number], target)
        source = self._owner[number]
        self._moves.add(number, source, target)
        del self.given[source][number]
        self.given[target][number] = None
        self._owner[number] = target

    def _score(self, given: Mapping[str, Mapping[int, None]]) -> int:
        """Return the sum of the differences of all pairs of members, of those that share a topic with others."""
        sharing = {member for takers in self._takers if len(takers) > 1 for member in takers}
        loads = sorted(len(given[member]) for member in sharing)
        return sum(load * (2 * place + 1 - len(loads)) for place, load in enumerate(loads))


class _Moves:
    """The partitions that were moved, and between whom: those that are moved back count as not moved.

    Java takes *any* of the partitions that moved between two members, the first of a hash table. Which one that is
    depends on the size that the table has grown to: see :mod:`~aiokproto.group.assignors.hash_order`.
    """

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._moved: dict[int, tuple[str, str]] = {}
        self._by_pair: dict[tuple[int, str, str], dict[int, None]] = {}
        self._capacity: dict[tuple[int, str, str], int] = {}

    def add(self, number: int, source: str, target: str) -> None:
        """Note that a partition moves."""
        place = number % len(self._numbering.topics)
        if number in self._moved:
            source, through = self._moved.pop(number)
            before = (place, source, through)
            del self._by_pair[before][number]
            if not self._by_pair[before]:
                del self._by_pair[before], self._capacity[before]
            if source == target:
                return
        pair = (place, source, target)
        self._moved[number] = (source, target)
        numbers = self._by_pair.setdefault(pair, {})
        numbers[number] = None
        self._capacity[pair] = capacity_for(len(numbers), self._capacity.get(pair, capacity_for(1)))

    def substitute(self, number: int, source: str, target: str) -> int:
        """Return the partition to move back instead of moving this one; itself if there is none."""
        width = len(self._numbering.topics)
        place = number % width
        if number in self._moved:
            source = self._moved[number][0]
        pair = (place, target, source)
        numbers = self._by_pair.get(pair)
        if not numbers:
            return number
        topic, capacity = string_hash(self._numbering.topics[place]), self._capacity[pair]
        return min(numbers, key=lambda each: bucket(partition_hash(topic, each // width), capacity))
