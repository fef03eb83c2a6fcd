"""The sticky assignment when all members read the same topics.

Every member gets the same number of partitions, or one less: with 7 partitions and 3 members, one member gets 3 and two
get 2. The smaller number is the *minimum quota*. First, each member keeps what it owns, up to that quota. Members that
own one more keep it, in Java's order of members, until as many as possible have one more. Then the unassigned
partitions go to members below the minimum quota, in turn. The rest go, one each, to members that can get one above the
quota.

With racks (KIP-881) members keep only partitions that have a replica in their rack. Unassigned partitions first go to
members in their racks, starting with the partitions that have the fewest such members; the rest are assigned as if
there were no racks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from aiokproto.group.assignors.hash_order import string_order
from aiokproto.group.assignors.member_data import CurrentAssignment, Numbering
from aiokproto.group.assignors.racks import RackInfo


class ConstrainedAssignmentBuilder:
    """Assigns partitions to members that read the same topics.

    Attributes:
        assignment: Member id → the numbers of its partitions.
        transferring: Partitions that another member owned: number → the member that gets it.
    """

    def __init__(self, numbering: Numbering, current: CurrentAssignment, rack_info: RackInfo) -> None:
        self.assignment: dict[str, list[int]] = {}
        self.transferring: dict[int, str] = {}
        self._numbering = numbering
        self._current = current
        self._rack_info = rack_info
        self._min_quota, self._over_min_quota = divmod(numbering.total, len(current.owned))
        # Members below the minimum quota, and members at the minimum quota that can get one more.
        self._unfilled: list[str] = []
        self._at_min_quota: list[str] = []
        self._revoked: dict[int, str] = {}

    def build(self) -> None:
        """Compute :attr:`assignment` and :attr:`transferring`."""
        for member, owned in self._current.owned.items():
            self._assign_owned(member, list(owned))
        kept = {member: len(numbers) for member, numbers in self.assignment.items()}
        self._unfilled.sort(key=string_order)
        self._at_min_quota.sort(key=string_order)
        unassigned = self._unassigned()
        if self._rack_info:
            unassigned = self._assign_rack_aware_round_robin(self._rack_info.sort_by_rack_consumers(unassigned))
        self._assign_round_robin(unassigned)
        self._find_transferring(kept)

    def _assign_owned(self, member: str, owned: list[int]) -> None:
        """Let a member keep the partitions it owns, up to its quota."""
        if self._rack_info:
            mismatch = self._rack_info.racks_mismatch
            self._revoked.update((number, member) for number in owned if mismatch(member, number))
            owned = [number for number in owned if not mismatch(member, number)]
        if self._current.multiple_owners:
            owned = [number for number in owned if number not in self._current.multiple_owners]
        owned.sort()
        quota = self._min_quota
        if len(owned) < quota:
            self._unfilled.append(member)
        elif self._over_min_quota and len(owned) > quota:
            quota += 1
            self._count_over_min_quota()
        elif self._over_min_quota:
            self._at_min_quota.append(member)
        self.assignment[member] = owned[:quota]
        self._revoked.update(dict.fromkeys(owned[quota:], member))

    def _count_over_min_quota(self) -> None:
        self._over_min_quota -= 1
        if not self._over_min_quota:
            self._at_min_quota.clear()

    def _unassigned(self) -> list[int]:
        """Return the partitions that no member keeps, by topic and number."""
        if sum(map(len, self.assignment.values())) == self._numbering.total:
            return []
        assigned: set[int] = set()
        # A single union of all members would hold the GIL, and block the event loop, for many milliseconds.
        for numbers in self.assignment.values():
            assigned.update(numbers)
        return [
            number
            for topic_index in range(len(self._numbering.topics))
            for number in self._numbering.of_topic(topic_index)
            if number not in assigned
        ]

    def _assign_round_robin(self, unassigned: Sequence[int]) -> None:
        """Assign partitions in turn."""
        start = 0
        while self._unfilled:
            # No member reaches its quota before the last of these rounds.
            rounds = self._min_quota - max(len(self.assignment[member]) for member in self._unfilled)
            end = start + rounds * len(self._unfilled)
            for first, member in enumerate(self._unfilled, start):
                self.assignment[member] += unassigned[first : end : len(self._unfilled)]
            start = end
            self._at_min_quota += [
                member for member in self._unfilled if len(self.assignment[member]) == self._min_quota
            ]
            self._unfilled = [member for member in self._unfilled if len(self.assignment[member]) < self._min_quota]
        for number, member in zip(unassigned[start:], self._at_min_quota, strict=False):
            self.assignment[member].append(number)

    def _assign_rack_aware_round_robin(self, unassigned: Sequence[int]) -> list[int]:
        """Assign partitions in turn to members in their racks. Return the partitions without such a member."""
        unfilled_racks = Counter(self._rack_info.consumer_racks.get(member) for member in self._unfilled)
        left, start = [], 0
        for number in unassigned:
            racks = self._rack_info.partition_racks[number]
            if any(unfilled_racks[rack] for rack in racks):
                index = self._next_in_rack(self._unfilled, number, start)
                member = self._unfilled[index]
                self.assignment[member].append(number)
                if len(self.assignment[member]) < self._min_quota:
                    start = (index + 1) % len(self._unfilled)
                    continue
                del self._unfilled[index]
                unfilled_racks[self._rack_info.consumer_racks[member]] -= 1
                start = index % len(self._unfilled) if self._unfilled else 0
                if self._over_min_quota:
                    self._at_min_quota.append(member)
            elif (index := self._next_in_rack(self._at_min_quota, number, 0)) >= 0:
                self.assignment[self._at_min_quota.pop(index)].append(number)
                self._count_over_min_quota()
            else:
                left.append(number)
        return left

    def _next_in_rack(self, members: Sequence[str], number: int, start: int) -> int:
        """Return the index of the next member in any of a partition's racks, starting at ``start`` and wrapping around;
        -1 if there is none."""
        for offset in range(len(members)):
            index = (start + offset) % len(members)
            member = members[index]
            if member in self._rack_info.consumer_racks and not self._rack_info.racks_mismatch(member, number):
                return index
        return -1

    def _find_transferring(self, kept: dict[str, int]) -> None:
        if not self._revoked and not self._current.multiple_owners:
            return
        for member, numbers in self.assignment.items():
            for number in numbers[kept[member] :]:
                if number in self._current.multiple_owners or self._revoked.get(number, member) != member:
                    self.transferring[number] = member
