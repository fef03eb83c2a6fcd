"""``sticky`` and ``cooperative-sticky``: balanced, with as few moves as possible (KIP-54, KIP-429, KIP-881)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from aiokproto.group.assignors.base import (
    NO_RACKS,
    Assignment,
    Assignor,
    Members,
    Racks,
    Subscription,
    different_topics,
)
from aiokproto.group.assignors.constrained import ConstrainedAssignmentBuilder
from aiokproto.group.assignors.general import GeneralAssignmentBuilder
from aiokproto.group.assignors.member_data import (
    DEFAULT_GENERATION,
    MemberData,
    Numbering,
    current_assignment,
    decode_generation,
    decode_member_data,
    encode_generation,
    encode_member_data,
)
from aiokproto.group.assignors.racks import RackInfo
from aiokproto.types import TopicPartition


class StickyAssignor(Assignor):
    """Keeps members' partitions as far as balance allows. Members revoke all partitions before a rebalance, so their
    former partitions are in the user data.

    The user data contains a member's partitions and their generation, in the Java client's format. Leaders also accept
    the format without a generation, which clients before Kafka 2.3 send.
    """

    name = "sticky"
    in_thread = True

    def __init__(self) -> None:
        self._assigned: Sequence[TopicPartition] | None = None
        self._generation = DEFAULT_GENERATION

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return this member's last assignment and its generation."""
        if self._assigned is None:
            return None
        return encode_member_data(self._assigned, self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Store the assignment for :meth:`user_data`."""
        self._assigned, self._generation = list(assigned), generation

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        member_data = {member: eager_member_data(subscription) for member, subscription in members.items()}
        balanced = _balance(partitions, members, member_data, racks)
        return {member: balanced.numbering.partitions(numbers) for member, numbers in balanced.assignment.items()}


class CooperativeStickyAssignor(Assignor):
    """Like ``sticky``, but members continue reading: partitions that move are revoked first, and assigned in a second
    rebalance.

    A member may only get partitions that no other member is still reading. So this round's assignment leaves out
    partitions that have to move. Their owner sees that they're missing, revokes them and rejoins; in the next round
    they are free.
    """

    name = "cooperative-sticky"
    cooperative = True
    in_thread = True

    def __init__(self) -> None:
        self._generation = DEFAULT_GENERATION

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the generation: subscriptions before version 2 contain the partitions, but not the generation."""
        return encode_generation(self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Store the generation for :meth:`user_data`."""
        self._generation = generation

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        member_data = {member: cooperative_member_data(subscription) for member, subscription in members.items()}
        balanced = _balance(partitions, members, member_data, racks)
        transferring = balanced.transferring
        if transferring is None:
            transferring = _transferring(balanced, member_data)
        return {
            member: balanced.numbering.partitions(
                [number for number in numbers if transferring.get(number) != member] if transferring else numbers
            )
            for member, numbers in balanced.assignment.items()
        }


class _Balanced(NamedTuple):
    """A balanced assignment.

    Attributes:
        numbering: The numbers of the partitions.
        assignment: Member id → its partitions.
        transferring: Partitions that another member owned, with the member that gets each; None if this hasn't been
            computed.
    """

    numbering: Numbering
    assignment: Mapping[str, Iterable[int]]
    transferring: Mapping[int, str] | None


def _balance(
    partitions: Mapping[str, int], members: Members, member_data: Mapping[str, MemberData], racks: Racks
) -> _Balanced:
    """Assign partitions until no single move between two members would improve the balance."""
    numbering = Numbering(partitions, members)
    if not members:
        return _Balanced(numbering, {}, {})
    current, rack_info = current_assignment(numbering, members, member_data), RackInfo(numbering, members, racks)
    first, *others = different_topics(members.values())
    if all(topics == first for topics in others):
        constrained = ConstrainedAssignmentBuilder(numbering, current, rack_info)
        constrained.build()
        return _Balanced(numbering, constrained.assignment, constrained.transferring)
    general = GeneralAssignmentBuilder(numbering, members, current, rack_info)
    general.build()
    return _Balanced(numbering, general.assignment, None)


def _transferring(balanced: _Balanced, member_data: Mapping[str, MemberData]) -> dict[int, str]:
    """Return the partitions that one member gets and another has to give up."""
    added: dict[int, str] = {}
    revoked: set[int] = set()
    for member, numbers in balanced.assignment.items():
        owned, assigned = set(balanced.numbering.numbers(member_data[member].partitions)), set(numbers)
        added.update(dict.fromkeys(assigned - owned, member))
        revoked |= owned - assigned
    return {number: member for number, member in added.items() if number in revoked}


def eager_member_data(subscription: Subscription) -> MemberData:
    """Return what a member of an eager group claims, from its user data."""
    if not subscription.user_data:
        return MemberData((), DEFAULT_GENERATION)
    return decode_member_data(subscription.user_data)


def cooperative_member_data(subscription: Subscription) -> MemberData:
    """Return what a member of a cooperative group claims. In old subscriptions, the generation is in the user data."""
    generation = subscription.generation if subscription.generation >= 0 else decode_generation(subscription.user_data)
    return MemberData(subscription.owned_partitions, generation)
