"""What the members of a group owned before, for the sticky assignors. It's read from their subscriptions, and conflicts
are resolved.

Partitions are represented by numbers here: the partition's number times the number of topics, plus the index of its
topic in the sorted list of topics. So numbers are ordered by (partition, topic), as the assignors decide what a member
keeps in this order. The assignors also don't need objects or hashes of names.

A member's claim can be wrong. A member that was away may claim partitions that have since been assigned to other
members; in that case, the claim of the later generation counts. Two claims of the same generation contradict each
other, and neither member keeps the partition. The Java client compares with the generation of the other member's
*subscription*, even if the assignor's user data contains a different generation. This module does the same, because all
leaders must decide alike. (There's one exception: Java also accepts claims of partitions that don't exist, and then
assigns other partitions twice.)
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

DEFAULT_GENERATION = -1
"""The generation of a member that doesn't report one."""

_INT32 = struct.Struct(">i")


class MemberData(NamedTuple):
    """The partitions that a member claims to own, and the generation that assigned them."""

    partitions: Sequence[TopicPartition]
    generation: int


class Numbering:
    """Numbers for the partitions of the subscribed topics.

    Attributes:
        topics: The names, sorted.
        sizes: The number of partitions of each topic.
        total: The number of all partitions.
    """

    def __init__(self, partitions: Mapping[str, int], members: Members) -> None:
        subscribed = subscribed_topics(members)
        self.topics = TopicNames(sorted((topic for topic in subscribed if partitions.get(topic)), key=string_order))
        self.sizes = [partitions[topic] for topic in self.topics]
        self.total = sum(self.sizes)
        self._topic_indexes = {topic: index for index, topic in enumerate(self.topics)}

    def of_topic(self, index: int) -> range:
        """Return the numbers of a topic's partitions, in order."""
        return range(index, self.sizes[index] * len(self.topics), len(self.topics))

    def numbers(self, partitions: Sequence[TopicPartition]) -> list[int]:
        """Return the numbers of the partitions that exist and are subscribed."""
        claimed, sizes, width = PartitionList.of(partitions), self.sizes, len(self.topics)
        indexes = [self._topic_indexes.get(topic, -1) for topic in claimed.topics]
        pairs = zip(map(indexes.__getitem__, claimed.topic_indexes), claimed.numbers, strict=True)
        limits = [sizes[index] if index >= 0 else 0 for index in indexes]
        # Usually all partitions exist. Checking that first, without executing Python code for each, takes half the
        # time.
        if min(claimed.numbers, default=0) >= 0 and all(
            map(lt, claimed.numbers, map(limits.__getitem__, claimed.topic_indexes))
        ):
            return [number * width + index for index, number in pairs]
        return [number * width + index for index, number in pairs if index >= 0 and 0 <= number < sizes[index]]

    def partitions(self, numbers: Iterable[int]) -> PartitionList:
        """Return the partitions with these numbers."""
        chosen, width = list(numbers), len(self.topics)
        topic_indexes = array("i", [number % width for number in chosen])
        return PartitionList(self.topics, topic_indexes, array("i", [number // width for number in chosen]))


class CurrentAssignment(NamedTuple):
    """Which member owns which partitions, according to the members' claims.

    Attributes:
        owned: Member id → the distinct numbers of its partitions, in the order of the claim. Members are in Java's
            order.
        multiple_owners: Partitions claimed by two members of the same generation.
        previous: The claims of earlier generations: partition → member.
    """

    owned: Mapping[str, Collection[int]]
    multiple_owners: AbstractSet[int]
    previous: Mapping[int, str]


def current_assignment(
    numbering: Numbering, members: Members, member_data: Mapping[str, MemberData]
) -> CurrentAssignment:
    """Resolve conflicts between the claims of all members."""
    claimed = {member: numbering.numbers(member_data[member].partitions) for member in hash_order(members)}
    # Usually no two members claim the same partition, so there's nothing to resolve.
    if _all_different(claimed.values()):
        return CurrentAssignment(claimed, frozenset(), _previous(claimed, member_data))
    owned: dict[str, dict[int, None]] = {}
    multiple_owners: set[int] = set()
    owner: dict[int, str] = {}
    for member, numbers in claimed.items():
        owned[member] = dict.fromkeys(numbers)
        if len(owned[member]) == len(numbers) and owner.keys().isdisjoint(numbers):
            owner.update(dict.fromkeys(numbers, member))
            continue
        owned[member] = {}
        generation = member_data[member].generation
        for number in numbers:
            other = owner.get(number)
            known = generation - 1 if other is None else max(members[other].generation, DEFAULT_GENERATION)
            if generation < known:
                continue
            owner[number] = member
            if other is not None:
                owned[other].pop(number, None)
            if generation > known:
                owned[member][number] = None
            else:
                multiple_owners.add(number)
    return CurrentAssignment(owned, multiple_owners, _previous(claimed, member_data))


def _all_different(claimed: Iterable[Collection[int]]) -> bool:
    seen: set[int] = set()
    # A single union of all members would hold the GIL, and block the event loop, for many milliseconds.
    for numbers in claimed:
        expected = len(seen) + len(numbers)
        seen.update(numbers)
        if len(seen) != expected:
            return False
    return True


def _previous(claimed: Mapping[str, Sequence[int]], member_data: Mapping[str, MemberData]) -> dict[int, str]:
    """Return for each partition the latest claim from before the overall latest generation; if there are several, the
    first."""
    latest = max(DEFAULT_GENERATION, *(data.generation for data in member_data.values()))
    previous: dict[int, str] = {}
    for member, numbers in claimed.items():
        generation = member_data[member].generation
        if generation < latest:
            for number in numbers:
                if number not in previous or generation > member_data[previous[number]].generation:
                    previous[number] = member
    return previous


def encode_member_data(assigned: Iterable[TopicPartition], generation: int) -> bytes:
    """Encode the user data of ``sticky`` (StickyAssignorUserData), version 1: topics with their partitions, then the
    generation."""
    partitions = PartitionList.of(assigned)
    occurring = dict.fromkeys(partitions.topic_indexes)
    order = computed_order([partitions.topics[index] for index in occurring])
    return partitions.encode(order) + _INT32.pack(generation)


def decode_member_data(data: bytes) -> MemberData:
    """Decode user data; version 0 has no generation. Invalid data from other clients counts as no claim."""
    try:
        claimed, end = decode_partitions(data, 0)
    except ValueError:
        return MemberData((), DEFAULT_GENERATION)
    has_generation = len(data) - end >= _INT32.size
    return MemberData(claimed, _INT32.unpack_from(data, end)[0] if has_generation else DEFAULT_GENERATION)


def encode_generation(generation: int) -> bytes:
    """Encode the user data of ``cooperative-sticky``, for leaders that read subscriptions before version 2."""
    return _INT32.pack(generation)


def decode_generation(data: bytes | None) -> int:
    """Decode the user data of ``cooperative-sticky``; -1 if there is none."""
    return int(_INT32.unpack_from(data)[0]) if data and len(data) >= _INT32.size else DEFAULT_GENERATION
