"""The interface of assignors: subscriptions in, assignments out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiokproto.types import TopicPartition


@dataclass(frozen=True)
class Subscription:
    """What a member sends to the group's leader when it joins.

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
"""Member id → subscription."""

Assignment = dict[str, list[TopicPartition]]
"""Member id → its partitions; every member has an entry."""


class Assignor(Protocol):
    """Distributes partitions among members. Each member has an instance of its own, which can keep state."""

    @property
    def name(self) -> str:
        """The name on which the members of a group agree."""
        ...

    @property
    def cooperative(self) -> bool:
        """Whether members continue reading during a rebalance, and give up only what moves (KIP-429)."""
        ...

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the user data of this member's subscription."""
        ...

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """Assign the partitions of all subscribed topics.

        Args:
            partitions: Topic → number of partitions. Topics that do not exist are absent.
            members: What every member said.
        """
        ...

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Take note of what this member was assigned."""
        ...


def member_order(members: Members) -> list[str]:
    """Return member ids in Kafka's order: static members first, by instance id, so that restarts change nothing."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].group_instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(members, key=key)


class Stateless:
    """The methods of an assignor that keeps no state."""

    cooperative = False

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return no user data."""
        return None

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Keep no state."""
