"""Rack-aware assignment (KIP-881): the racks of consumers and partitions, and whether they make a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

from aiokproto.group.assignors.base import Members, Racks
from aiokproto.group.assignors.member_data import Numbering


def consumer_racks(members: Members) -> dict[str, str]:
    """Return the racks of the members that have reported one."""
    return {member: subscription.rack_id for member, subscription in members.items() if subscription.rack_id}


def partition_racks(racks: Mapping[str, Sequence[AbstractSet[str]]], topic: str, size: int) -> list[AbstractSet[str]]:
    """Return the racks of the replicas, for each partition of a topic."""
    known = list(racks.get(topic, ()))[:size]
    return known + [frozenset()] * (size - len(known))


def use_rack_aware_assignment(consumer_racks: Collection[str], partition_racks: Collection[AbstractSet[str]]) -> bool:
    """Return whether racks make a difference: some consumer is in a rack of some partitions, but not of all."""
    all_racks: set[str] = set().union(*set(map(frozenset, partition_racks)))
    if all_racks.isdisjoint(consumer_racks):
        return False
    return any(racks != all_racks for racks in partition_racks)


class RackInfo:
    """The racks of consumers and partitions, for the sticky assignors; empty if racks make no difference.

    Attributes:
        consumer_racks: Member id → its rack, for the members that have reported one.
        partition_racks: Number of a partition → the racks of its replicas. It contains all partitions, or is empty.
    """

    def __init__(self, numbering: Numbering, members: Members, racks: Racks) -> None:
        self.consumer_racks: Mapping[str, str] = {}
        self.partition_racks: Mapping[int, AbstractSet[str]] = {}
        of_consumers = consumer_racks(members)
        if not of_consumers:
            return
        of_partitions: dict[int, AbstractSet[str]] = {}
        for index, topic in enumerate(numbering.topics):
            known = partition_racks(racks, topic, numbering.sizes[index])
            of_partitions.update(zip(numbering.of_topic(index), known, strict=True))
        if use_rack_aware_assignment(of_consumers.values(), of_partitions.values()):
            self.consumer_racks = of_consumers
            self.partition_racks = of_partitions

    def __bool__(self) -> bool:
        return bool(self.consumer_racks)

    def racks_mismatch(self, member: str, number: int) -> bool:
        """Return whether the member has a rack and the partition has no replica in it."""
        return member in self.consumer_racks and self.consumer_racks[member] not in self.partition_racks[number]

    def sort_by_rack_consumers(self, numbers: Sequence[int]) -> list[int]:
        """Return partitions sorted by the number of consumers in their racks: partitions with few consumers leave the
        least choice."""
        sizes = Counter(self.consumer_racks.values())
        return sorted(numbers, key=lambda number: sum(sizes[rack] for rack in self.partition_racks[number]))
