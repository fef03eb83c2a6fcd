"""What an assignor is given and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiokproto.types import TopicPartition


@dataclass(frozen=True)
class Subscription:
    """What a member tells the group's leader when it joins.

    Attributes:
        topics: The topics it wants to read.
        user_data: Bytes of its assignor.
        owned_partitions: What it reads already and would like to keep.
        generation: The generation in which it was given those; -1 when unknown.
        rack_id: Where it runs; None when it did not say.
        group_instance_id: Its static identity (KIP-345), None for a dynamic member.
    """

    topics: frozenset[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


Members = Mapping[str, Subscription]
"""Member id → what it said."""

Assignment = dict[str, list[TopicPartition]]
"""Member id → its partitions; every member has an entry."""


class Assignor(Protocol):
    """Deals out partitions. An object belongs to one member and may remember what it was told last."""

    @property
    def name(self) -> str:
        """What the members of a group agree on."""
        ...

    @property
    def cooperative(self) -> bool:
        """Whether members keep reading during a rebalance and give up only what they lose (KIP-429)."""
        ...

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """What this member adds to its subscription."""
        ...

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """Deal out the partitions of all topics that anyone wants.

        Args:
            partitions: Topic → number of partitions. Topics that do not exist are absent.
            members: What every member said.
        """
        ...

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Hear what this member was given."""
        ...


def member_order(members: Members) -> list[str]:
    """Member ids in Kafka's order: static members first, by instance id, so that a restart changes nothing."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].group_instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(members, key=key)


class Stateless:
    """The parts of an assignor that keeps nothing between rebalances."""

    cooperative = False

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Nothing."""
        return None

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Nothing to remember."""
