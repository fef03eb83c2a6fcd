"""The sticky distribution among members that all read the same topics.

Every member gets the same number of partitions, or one less: with 7 partitions and 3 members, one gets 3 and two get 2.
First each keeps what it owns, up to that number. Those that own as many as the larger share keep it, in Java's order of
members, until as many as there can be have one. What is left is dealt to the members with less than the smaller share,
one each in turn, and then one each to those that wait for the larger share.

With racks (KIP-881) members keep only what is near. What is left is first dealt to members that are near, partitions
with the fewest of them first; the rest is dealt as without racks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from aiokproto.group.assignors.claims import Numbering, Settled
from aiokproto.group.assignors.hash_order import string_order
from aiokproto.group.assignors.near import Near


class EqualSubscriptions:
    """Distributes partitions among members that read the same topics.

    Attributes:
        given: Member id → the numbers of its partitions.
        moving: The partitions that another member owned: number → the member that gets it.
    """

    def __init__(self, numbering: Numbering, settled: Settled, near: Near) -> None:
        self.given: dict[str, list[int]] = {}
        self.moving: dict[int, str] = {}
        self._numbering = numbering
        self._settled = settled
        self._near = near
        self._least, self._larger = divmod(numbering.total, len(settled.owned))
        # Members with less than the smaller share, and those with exactly that which may get one more.
        self._short: list[str] = []
        self._waiting: list[str] = []
        self._revoked: dict[int, str] = {}

    def run(self) -> None:
        """Compute :attr:`given` and :attr:`moving`."""
        for member, owned in self._settled.owned.items():
            self._keep(member, list(owned))
        kept = {member: len(numbers) for member, numbers in self.given.items()}
        self._short.sort(key=string_order)
        self._waiting.sort(key=string_order)
        free = self._free()
        if self._near:
            free = self._deal_near(self._near.fewest_first(free))
        self._deal(free)
        self._find_moving(kept)

    def _keep(self, member: str, owned: list[int]) -> None:
        """Let a member keep its share of what it owns."""
        if self._near:
            self._revoked.update((number, member) for number in owned if self._near.far(member, number))
            owned = [number for number in owned if not self._near.far(member, number)]
        if self._settled.disputed:
            owned = [number for number in owned if number not in self._settled.disputed]
        owned.sort()
        share = self._least
        if len(owned) < share:
            self._short.append(member)
        elif self._larger and len(owned) > share:
            share += 1
            self._took_larger()
        elif self._larger:
            self._waiting.append(member)
        self.given[member] = owned[:share]
        self._revoked.update(dict.fromkeys(owned[share:], member))

    def _took_larger(self) -> None:
        self._larger -= 1
        if not self._larger:
            self._waiting.clear()

    def _free(self) -> list[int]:
        """Return the partitions that nobody keeps, by topic and number."""
        if sum(map(len, self.given.values())) == self._numbering.total:
            return []
        taken: set[int] = set()
        # Member by member: one union of all would keep the GIL from the event loop for many milliseconds.
        for numbers in self.given.values():
            taken.update(numbers)
        return [
            number
            for place in range(len(self._numbering.topics))
            for number in self._numbering.of_topic(place)
            if number not in taken
        ]

    def _deal(self, free: Sequence[int]) -> None:
        """Deal partitions in turn."""
        position = 0
        while self._short:
            # As many rounds as no member reaches its share in all but the last of them.
            rounds = self._least - max(len(self.given[member]) for member in self._short)
            end = position + rounds * len(self._short)
            for place, member in enumerate(self._short, position):
                self.given[member] += free[place : end : len(self._short)]
            position = end
            self._waiting += [member for member in self._short if len(self.given[member]) == self._least]
            self._short = [member for member in self._short if len(self.given[member]) < self._least]
        for number, member in zip(free[position:], self._waiting, strict=False):
            self.given[member].append(number)

    def _deal_near(self, free: Sequence[int]) -> list[int]:
        """Deal partitions to members that are near, in turn; return those for which there is none."""
        short_racks = Counter(self._near.of_members.get(member) for member in self._short)
        left, start = [], 0
        for number in free:
            racks = self._near.of_partitions[number]
            if any(short_racks[rack] for rack in racks):
                place = self._next_near(self._short, number, start)
                member = self._short[place]
                self.given[member].append(number)
                if len(self.given[member]) < self._least:
                    start = (place + 1) % len(self._short)
                    continue
                del self._short[place]
                short_racks[self._near.of_members[member]] -= 1
                start = place % len(self._short) if self._short else 0
                if self._larger:
                    self._waiting.append(member)
            elif (place := self._next_near(self._waiting, number, 0)) >= 0:
                self.given[self._waiting.pop(place)].append(number)
                self._took_larger()
            else:
                left.append(number)
        return left

    def _next_near(self, members: Sequence[str], number: int, start: int) -> int:
        """Return the place of the next member that is near a partition, from ``start`` on and around; -1 if none is."""
        for offset in range(len(members)):
            place = (start + offset) % len(members)
            if members[place] in self._near.of_members and not self._near.far(members[place], number):
                return place
        return -1

    def _find_moving(self, kept: dict[str, int]) -> None:
        if not self._revoked and not self._settled.disputed:
            return
        for member, numbers in self.given.items():
            for number in numbers[kept[member] :]:
                if number in self._settled.disputed or self._revoked.get(number, member) != member:
                    self.moving[number] = member
