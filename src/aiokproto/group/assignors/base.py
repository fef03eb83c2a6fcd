"""The interface of assignors: subscriptions in, assignments out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar

from aiokproto.types import TopicPartition


@dataclass(frozen=True)
class Subscription:
    """What a member sends to the group's leader when it joins (ConsumerProtocolSubscription).

    Attributes:
        topics: The topics it wants to read, in the order in which it lists them.
        user_data: Bytes of its assignor; None if it sent none.
        owned_partitions: What it reads already and would like to keep. Members of eager groups own nothing when they
            join.
        generation: The generation in which it was assigned those; -1 when unknown.
        rack_id: The rack in which it runs (KIP-881); None when it did not say.
        group_instance_id: Its static identity (KIP-345), None for a dynamic member.
    """

    topics: AbstractSet[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


Members = Mapping[str, Subscription]
"""Member id → subscription, in the order of the coordinator's response."""

Racks = Mapping[str, Sequence[AbstractSet[str]]]
"""Topic → for each of its partitions, the racks of its replicas (KIP-881). Topics without racks are absent."""

NO_RACKS: Racks = {}

Assignment = Mapping[str, Sequence[TopicPartition]]
"""Member id → its partitions."""


def different_topics(subscriptions: Iterable[Subscription]) -> list[AbstractSet[str]]:
    """Return the sets of topics, those that members share once."""
    return list({id(each.topics): each.topics for each in subscriptions}.values())


def subscribed_topics(members: Members) -> set[str]:
    """Return the topics that some member wants to read."""
    return set().union(*different_topics(members.values()))


class Assignor(ABC):
    """Distributes partitions among members: the base of your own assignors.

    A subclass has a :attr:`name` and an :meth:`assign`; the rest is optional. Each member has an instance of its own,
    which can keep state between :meth:`on_assignment` and :meth:`user_data`. These two are called in the event loop.
    An exception in any method ends the consumer.

    Attributes:
        name: The name on which the members of a group agree.
        cooperative: Whether members continue reading during a rebalance, and give up only what moves (KIP-429).
            Then :meth:`assign` must leave out a partition that moves while another member still owns it: its owner
            gives it up and joins again, and the next assignment has it.
        in_thread: Whether :meth:`assign` runs in one of the client's threads, so that a long computation does not block
            the event loop. It must then change nothing outside of the call, since the member may be cancelled or
            closed meanwhile. By default it runs in the event loop.
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False
    in_thread: ClassVar[bool] = False

    @abstractmethod
    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
        """Assign the partitions of all subscribed topics. Called for the group's leader only.

        Args:
            partitions: Topic → number of partitions. Topics that do not exist are absent.
            members: The subscription of every member.
            racks: The racks of the partitions' replicas; empty unless a member has named its own.

        Returns:
            The partitions of each member, which reads them in no particular order. A member without an entry has none.
        """

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return what this member tells the leader's assignor, next to its subscription; by default nothing."""
        return None

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027 (optional)
        """Take note of this member's assignment and its generation; by default it is ignored."""
