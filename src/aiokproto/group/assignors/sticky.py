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
from aiokproto.group.assignors.claims import (
    UNKNOWN,
    Claim,
    Numbering,
    decode_claim,
    decode_generation,
    encode_claim,
    encode_generation,
    settle,
)
from aiokproto.group.assignors.equal import EqualSubscriptions
from aiokproto.group.assignors.near import Near
from aiokproto.group.assignors.unequal import UnequalSubscriptions
from aiokproto.types import TopicPartition


class StickyAssignor(Assignor):
    """Keeps members' partitions as far as balance allows. Members revoke all before a rebalance, so user data has them.

    What a member had and when is in its user data, in the form the Java client writes; leaders also read the one
    without a generation, of clients before Kafka 2.3.
    """

    name = "sticky"
    in_thread = True

    def __init__(self) -> None:
        self._assigned: Sequence[TopicPartition] | None = None
        self._generation = UNKNOWN

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the last assignment of this member, and its generation."""
        if self._assigned is None:
            return None
        return encode_claim(self._assigned, self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Store the assignment for :meth:`user_data`."""
        self._assigned, self._generation = list(assigned), generation

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        claims = {member: eager_claim(subscription) for member, subscription in members.items()}
        balanced = _balance(partitions, members, claims, racks)
        return {member: balanced.numbering.partitions(given) for member, given in balanced.given.items()}


class CooperativeStickyAssignor(Assignor):
    """As ``sticky``, but members continue reading: what moves is revoked first, and assigned in a second rebalance.

    A member may only be given what no other member still reads. What is to move is therefore left out of this round's
    assignment; its owner sees that it lost it, revokes it and joins again, and then it is free.
    """

    name = "cooperative-sticky"
    cooperative = True
    in_thread = True

    def __init__(self) -> None:
        self._generation = UNKNOWN

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the generation, which subscriptions before version 2 lack; they have the partitions."""
        return encode_generation(self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Store the generation for :meth:`user_data`."""
        self._generation = generation

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        claims = {member: cooperative_claim(subscription) for member, subscription in members.items()}
        balanced = _balance(partitions, members, claims, racks)
        moving = balanced.moving
        if moving is None:
            moving = _moving(balanced, claims)
        return {
            member: balanced.numbering.partitions(
                [number for number in given if moving.get(number) != member] if moving else given
            )
            for member, given in balanced.given.items()
        }


class _Balanced(NamedTuple):
    """A balanced distribution.

    Attributes:
        numbering: The numbers of the partitions.
        given: Member id → its partitions.
        moving: The partitions that another member owned, with the one that gets it; None if they are to be found out.
    """

    numbering: Numbering
    given: Mapping[str, Iterable[int]]
    moving: Mapping[int, str] | None


def _balance(partitions: Mapping[str, int], members: Members, claims: Mapping[str, Claim], racks: Racks) -> _Balanced:
    """Distribute partitions so that no single move between two members could balance their loads better."""
    numbering = Numbering(partitions, members)
    if not members:
        return _Balanced(numbering, {}, {})
    settled, near = settle(numbering, members, claims), Near(numbering, members, racks)
    first, *others = different_topics(members.values())
    if all(topics == first for topics in others):
        equal = EqualSubscriptions(numbering, settled, near)
        equal.run()
        return _Balanced(numbering, equal.given, equal.moving)
    unequal = UnequalSubscriptions(numbering, members, settled, near)
    unequal.run()
    return _Balanced(numbering, unequal.given, None)


def _moving(balanced: _Balanced, claims: Mapping[str, Claim]) -> dict[int, str]:
    """Return the partitions that one member is given and another must give up."""
    added: dict[int, str] = {}
    revoked: set[int] = set()
    for member, given in balanced.given.items():
        owned, now = set(balanced.numbering.numbers(claims[member].partitions)), set(given)
        added.update(dict.fromkeys(now - owned, member))
        revoked |= owned - now
    return {number: member for number, member in added.items() if number in revoked}


def eager_claim(subscription: Subscription) -> Claim:
    """Return what a member of an eager group claims: its user data has it."""
    return decode_claim(subscription.user_data) if subscription.user_data else Claim((), UNKNOWN)


def cooperative_claim(subscription: Subscription) -> Claim:
    """Return what a member of a cooperative group claims. Its user data has the generation of old subscriptions."""
    generation = subscription.generation if subscription.generation >= 0 else decode_generation(subscription.user_data)
    return Claim(subscription.owned_partitions, generation)
