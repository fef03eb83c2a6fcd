"""Racks of members and partitions (KIP-881): whether they make a difference, and which of them match."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

from aiokproto.group.assignors.base import Members


def member_racks(members: Members) -> dict[str, str]:
    """Return the racks of the members that have named theirs."""
    return {member: subscription.rack_id for member, subscription in members.items() if subscription.rack_id}


def racks_matter(of_members: Collection[str], of_partitions: Collection[AbstractSet[str]]) -> bool:
    """Return whether an assignment by racks can be better: some member is in a partition's rack, but not in all."""
    everywhere: set[str] = set().union(*set(map(frozenset, of_partitions)))
    if everywhere.isdisjoint(of_members):
        return False
    return any(racks != everywhere for racks in of_partitions)


def of_topic(racks: Mapping[str, Sequence[AbstractSet[str]]], topic: str, size: int) -> list[AbstractSet[str]]:
    """Return the replicas' racks of each partition of a topic."""
    known = list(racks.get(topic, ()))[:size]
    return known + [frozenset()] * (size - len(known))
