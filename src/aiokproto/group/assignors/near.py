"""Which members are near which partitions, for the sticky assignors (KIP-881)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from aiokproto.group.assignors.base import Members, Racks
from aiokproto.group.assignors.claims import Numbering
from aiokproto.group.assignors.racks import member_racks, of_topic, racks_matter


class Near:
    """The racks of members and partitions; empty where racks make no difference.

    Attributes:
        of_members: Member id → its rack; only members that have named theirs.
        of_partitions: Number of a partition → the racks of its replicas; all partitions, or none.
    """

    def __init__(self, numbering: Numbering, members: Members, racks: Racks) -> None:
        self.of_members: Mapping[str, str] = {}
        self.of_partitions: Mapping[int, AbstractSet[str]] = {}
        of_members = member_racks(members)
        if not of_members:
            return
        of_partitions: dict[int, AbstractSet[str]] = {}
        for place, topic in enumerate(numbering.topics):
            known = of_topic(racks, topic, numbering.sizes[place])
            of_partitions.update(zip(numbering.of_topic(place), known, strict=True))
        if racks_matter(of_members.values(), of_partitions.values()):
            self.of_members = of_members
            self.of_partitions = of_partitions

    def __bool__(self) -> bool:
        return bool(self.of_members)

    def far(self, member: str, number: int) -> bool:
        """Return whether the member has a rack in which the partition has no replica."""
        return member in self.of_members and self.of_members[member] not in self.of_partitions[number]

    def fewest_first(self, numbers: Sequence[int]) -> list[int]:
        """Return partitions sorted by the number of members that are near: those have the least choice."""
        sizes = Counter(self.of_members.values())
        return sorted(numbers, key=lambda number: sum(sizes[rack] for rack in self.of_partitions[number]))
