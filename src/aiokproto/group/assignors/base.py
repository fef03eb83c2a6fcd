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
        topics: The topics it wants to read, in the order it lists them.
        user_data: Bytes from its assignor, if any.
        owned_partitions: The partitions that it already reads and would like to keep. Members of eager groups own
            nothing when they join.
        generation: The generation that assigned these; -1 if unknown.
        rack_id: The rack it's running in (KIP-881); None if it didn't report one.
        group_instance_id: Its static identity (KIP-345); None for a dynamic member.
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
    """Return the distinct sets of topics."""
    return list({id(each.topics): each.topics for each in subscriptions}.values())


def subscribed_topics(members: Members) -> set[str]:
    """Return the topics that any member wants to read."""
    return set().union(*different_topics(members.values()))


class Assignor(ABC):
    """Distributes partitions among members. This is the base class for your own assignors.

    A subclass needs a :attr:`name` and an :meth:`assign`; the rest is optional. Each member has its own instance, which
    can keep state between :meth:`on_assignment` and :meth:`user_data`. These two are called in the event loop. If any
    method raises, the consumer ends.

    Attributes:
        name: The name that the members of a group agree on.
        cooperative: Whether members continue reading during a rebalance, and give up only the partitions that move
            (KIP-429). If so, :meth:`assign` must leave out a partition that moves while another member still owns it:
            the owner gives it up and rejoins, and the next assignment includes it.
        in_thread: Whether :meth:`assign` runs in one of the client's threads, to keep a long computation from blocking
            the event loop. If so, it must not change anything outside the call, since the member may be cancelled or
            closed in the meantime. By default it runs in the event loop.
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False
    in_thread: ClassVar[bool] = False

    @abstractmethod
    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
        """Assign the partitions of all subscribed topics. Only called for the group's leader.

        Args:
            partitions: Topic → number of partitions. Topics that do not exist are absent.
            members: The subscription of every member.
            racks: The racks of the partitions' replicas; empty unless a member has reported its own.

        Returns:
            The partitions of each member, which reads them in no particular order. A member without an entry gets no
            partitions.
        """

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return data for the leader's assignor, sent along with this member's subscription; by default, none."""
        return None

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027 (optional)
        """Receive this member's assignment and its generation. By default they are ignored."""
