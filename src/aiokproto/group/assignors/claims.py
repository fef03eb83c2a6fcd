"""What members claim to own, for the sticky assignors: read from their subscriptions, and settled.

Partitions are numbered here: number of the partition times topics, plus the place of the topic's name among all. So
numbers are in the order (partition, topic), in which the assignors decide what a member keeps, and the assignors need
neither objects nor hashes of names.

A claim can be wrong. A member that was away claims partitions which others were assigned since; the claim of the later
generation counts. Two claims of one generation contradict each other, and nobody keeps the partition. The Java client
compares with the generation of the other member's *subscription*, even where the assignor's user data has another one:
so does this, as all leaders must decide alike. (In one thing it does not follow Java, which also believes claims of
partitions that do not exist, and then assigns others twice.)
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import lt
from typing import NamedTuple

from aiokproto.group.assignors.base import Members, subscribed_topics
from aiokproto.group.assignors.hash_order import computed_order, hash_order, string_order
from aiokproto.group.partition_list import PartitionList, TopicNames, decode_partitions
from aiokproto.types import TopicPartition

UNKNOWN = -1
"""The generation of a claim that has none."""

_INT32 = struct.Struct(">i")


class Claim(NamedTuple):
    """The partitions that a member had, and in which generation."""

    partitions: Sequence[TopicPartition]
    generation: int


class Numbering:
    """Numbers for the partitions of the subscribed topics.

    Attributes:
        topics: The names, sorted.
        sizes: The number of partitions of each.
        total: The number of all partitions.
    """

    def __init__(self, partitions: Mapping[str, int], members: Members) -> None:
        wanted = subscribed_topics(members)
        self.topics = TopicNames(sorted((topic for topic in wanted if partitions.get(topic)), key=string_order))
        self.sizes = [partitions[topic] for topic in self.topics]
        self.total = sum(self.sizes)
        self._places = {topic: place for place, topic in enumerate(self.topics)}

    def of_topic(self, place: int) -> range:
        """Return the numbers of a topic's partitions, in order."""
        return range(place, self.sizes[place] * len(self.topics), len(self.topics))

    def numbers(self, partitions: Sequence[TopicPartition]) -> list[int]:
        """Return the numbers of those partitions that exist and are subscribed."""
        claimed, sizes, width = PartitionList.of(partitions), self.sizes, len(self.topics)
        places = [self._places.get(topic, -1) for topic in claimed.topics]
        pairs = zip(map(places.__getitem__, claimed.places), claimed.numbers, strict=True)
        limits = [sizes[place] if place >= 0 else 0 for place in places]
        # As a rule all exist: to look at that first, without a step of Python for each, takes half the time.
        if min(claimed.numbers, default=0) >= 0 and all(
            map(lt, claimed.numbers, map(limits.__getitem__, claimed.places))
        ):
            return [number * width + place for place, number in pairs]
        return [number * width + place for place, number in pairs if place >= 0 and 0 <= number < sizes[place]]

    def partitions(self, numbers: Iterable[int]) -> PartitionList:
        """Return the partitions with these numbers."""
        chosen, width = list(numbers), len(self.topics)
        places = array("i", [number % width for number in chosen])
        return PartitionList(self.topics, places, array("i", [number // width for number in chosen]))


class Settled(NamedTuple):
    """Who owns what, as far as the claims say.

    Attributes:
        owned: Member id → different numbers of its partitions in the order of the claim, members in Java's order.
        disputed: Partitions that two members of one generation claim.
        stale: The claims of earlier generations: partition → member.
    """

    owned: Mapping[str, Collection[int]]
    disputed: AbstractSet[int]
    stale: Mapping[int, str]


def settle(numbering: Numbering, members: Members, claims: Mapping[str, Claim]) -> Settled:
    """Decide between the claims of all members."""
    claimed = {member: numbering.numbers(claims[member].partitions) for member in hash_order(members)}
    # As a rule nobody claims what another one does, and nothing has to be decided.
    if _all_different(claimed.values()):
        return Settled(claimed, frozenset(), _stale(claimed, claims))
    owned: dict[str, dict[int, None]] = {}
    disputed: set[int] = set()
    owner: dict[int, str] = {}
    for member, mine in claimed.items():
        owned[member] = dict.fromkeys(mine)
        if len(owned[member]) == len(mine) and owner.keys().isdisjoint(mine):
            owner.update(dict.fromkeys(mine, member))
            continue
        owned[member] = {}
        generation = claims[member].generation
        for number in mine:
            other = owner.get(number)
            known = generation - 1 if other is None else max(members[other].generation, UNKNOWN)
            if generation < known:
                continue
            owner[number] = member
            if other is not None:
                owned[other].pop(number, None)
            if generation > known:
                owned[member][number] = None
            else:
                disputed.add(number)
    return Settled(owned, disputed, _stale(claimed, claims))


def _all_different(claimed: Iterable[Collection[int]]) -> bool:
    seen: set[int] = set()
    # Member by member: one union of all would keep the GIL from the event loop for many milliseconds.
    for numbers in claimed:
        expected = len(seen) + len(numbers)
        seen.update(numbers)
        if len(seen) != expected:
            return False
    return True


def _stale(claimed: Mapping[str, Sequence[int]], claims: Mapping[str, Claim]) -> dict[int, str]:
    """Return the latest of the claims that are not of the latest generation of all; the first where several are."""
    latest = max(UNKNOWN, *(claim.generation for claim in claims.values()))
    best: dict[int, str] = {}
    for member, numbers in claimed.items():
        generation = claims[member].generation
        if generation < latest:
            for number in numbers:
                if number not in best or generation > claims[best[number]].generation:
                    best[number] = member
    return best


def encode_claim(assigned: Iterable[TopicPartition], generation: int) -> bytes:
    """Encode the user data of ``sticky`` (StickyAssignorUserData), version 1: topics with partitions, generation."""
    partitions = PartitionList.of(assigned)
    occurring = dict.fromkeys(partitions.places)
    order = computed_order([partitions.topics[place] for place in occurring])
    return partitions.encode(order) + _INT32.pack(generation)


def decode_claim(data: bytes) -> Claim:
    """Decode user data; version 0 has no generation. Invalid data of other clients counts as no claim."""
    try:
        claimed, end = decode_partitions(data, 0)
    except ValueError:
        return Claim((), UNKNOWN)
    return Claim(claimed, _INT32.unpack_from(data, end)[0] if len(data) - end >= _INT32.size else UNKNOWN)


def encode_generation(generation: int) -> bytes:
    """Encode the user data of ``cooperative-sticky``, for leaders that read subscriptions before version 2."""
    return _INT32.pack(generation)


def decode_generation(data: bytes | None) -> int:
    """Decode the user data of ``cooperative-sticky``; -1 if there is none."""
    return int(_INT32.unpack_from(data)[0]) if data and len(data) >= _INT32.size else UNKNOWN
