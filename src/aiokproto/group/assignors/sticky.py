"""``sticky`` and ``cooperative-sticky``: balanced, with as few moves as possible (KIP-54, KIP-429)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from aiokproto.group.assignors.base import Assignment, Members, Subscription, member_order
from aiokproto.types import TopicPartition

Claim = tuple[list[TopicPartition], int]
"""The partitions that a member had, and in which generation."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class StickyAssignor:
    """Keeps members' partitions as far as balance allows. Members revoke all before a rebalance, so user data has them.

    What a member had and when is in its user data, in the form the Java client writes.
    """

    name = "sticky"
    cooperative = False

    def __init__(self) -> None:
        self._assigned: Sequence[TopicPartition] | None = None
        self._generation = -1

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the last assignment of this member, and its generation."""
        if self._assigned is None:
            return None
        return encode_claim(self._assigned, self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Store the assignment for :meth:`user_data`."""
        self._assigned, self._generation = list(assigned), generation

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """See :meth:`Assignor.assign`."""
        return balance(partitions, members, {member: self._claim(said) for member, said in members.items()})

    def _claim(self, said: Subscription) -> Claim:
        return decode_claim(said.user_data) if said.user_data else ([], -1)


class CooperativeStickyAssignor:
    """As ``sticky``, but members continue reading: what moves is revoked first, and assigned in a second rebalance.

    A member may only be given what no other member still reads. What is to move is therefore left out of this round's
    assignment; its owner sees that it lost it, revokes it and joins again, and then it is free.
    """

    name = "cooperative-sticky"
    cooperative = True

    def __init__(self) -> None:
        self._generation = -1

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the generation, which subscriptions before version 2 lack; they have the partitions."""
        return _INT32.pack(self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """Store the generation for :meth:`user_data`."""
        self._generation = generation

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """See :meth:`Assignor.assign`."""
        claims = {member: self._claim(said) for member, said in members.items()}
        target = balance(partitions, members, claims)
        readers: dict[TopicPartition, set[str]] = {}
        for member, said in members.items():
            for partition in said.owned_partitions:
                readers.setdefault(partition, set()).add(member)
        return {
            member: [partition for partition in given if readers.get(partition, {member}) == {member}]
            for member, given in target.items()
        }

    def _claim(self, said: Subscription) -> Claim:
        generation = said.generation
        if generation < 0 and said.user_data and len(said.user_data) >= _INT32.size:
            (generation,) = _INT32.unpack_from(said.user_data)
        return list(said.owned_partitions), generation


def balance(partitions: Mapping[str, int], members: Members, claims: Mapping[str, Claim]) -> Assignment:
    """Assign partitions so that no single move between two members could balance their loads better.

    Among members that read the same topics loads then differ by one at most.
    """
    order = member_order(members)
    readers = {topic: [member for member in order if topic in members[member].topics] for topic in partitions}
    everything = [
        TopicPartition(topic, number)
        for topic in sorted(partitions)
        if readers[topic]
        for number in range(partitions[topic])
    ]
    kept = _settle_claims(order, claims, readers, set(everything))
    wanted = {topic for topic, takers in readers.items() if takers}
    if all(wanted <= members[member].topics for member in order):
        result = _balance_equal(order, kept, everything)
    else:
        result = _balance_unequal(order, kept, everything, readers)
    return {member: sorted(result[member]) for member in order}


def _settle_claims(
    order: Sequence[str],
    claims: Mapping[str, Claim],
    readers: Mapping[str, Sequence[str]],
    existing: set[TopicPartition],
) -> Assignment:
    """Decide who keeps what: the claim of the latest generation counts; two of the same generation cancel out."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in order:
        claimed, generation = claims[member]
        for partition in set(claimed) & existing:
            if member not in readers[partition.topic]:
                continue
            known = best.get(partition)
            if known is None or generation > known[0]:
                best[partition] = (generation, member)
            elif generation == known[0]:
                best[partition] = (generation, None)
    kept: Assignment = {member: [] for member in order}
    for partition, (_, owner) in sorted(best.items()):
        if owner is not None:
            kept[owner].append(partition)
    return kept


def _balance_equal(order: Sequence[str], kept: Assignment, everything: Sequence[TopicPartition]) -> Assignment:
    """Balance members with equal subscriptions: each has a quota, and those with most partitions keep larger ones."""
    if not order:
        return {}
    least, extra = divmod(len(everything), len(order))
    quota = {
        member: least + (place < extra) for place, member in enumerate(sorted(order, key=lambda who: -len(kept[who])))
    }
    result = {member: kept[member][: quota[member]] for member in order}
    taken = {partition for given in result.values() for partition in given}
    free = iter([partition for partition in everything if partition not in taken])
    # One at a time, so that the partitions of a topic spread over the members.
    short = [member for member in order if len(result[member]) < quota[member]]
    while short:
        for member, partition in zip(short, free, strict=False):
            result[member].append(partition)
        short = [member for member in short if len(result[member]) < quota[member]]
    return result


def _balance_unequal(
    order: Sequence[str],
    kept: Assignment,
    everything: Sequence[TopicPartition],
    readers: Mapping[str, Sequence[str]],
) -> Assignment:
    """Balance members with different subscriptions: assign free partitions to the least loaded, then move single ones.

    Each move lessens the sum of the squares of the loads, so that this ends.
    """
    owner = {partition: member for member, given in kept.items() for partition in given}
    load = {member: len(kept[member]) for member in order}

    def give(partition: TopicPartition) -> None:
        member = min(readers[partition.topic], key=load.__getitem__)
        owner[partition] = member
        load[member] += 1

    # Partitions with few possible members first: the others can balance the loads afterwards.
    for partition in sorted(everything, key=lambda one: (len(readers[one.topic]), one)):
        if partition not in owner:
            give(partition)
    moved = True
    while moved:
        moved = False
        for partition in everything:
            least = min(load[member] for member in readers[partition.topic])
            if load[owner[partition]] - least > 1:
                load[owner[partition]] -= 1
                give(partition)
                moved = True
    result: Assignment = {member: [] for member in order}
    for partition, member in owner.items():
        result[member].append(partition)
    return result


def encode_claim(assigned: Sequence[TopicPartition], generation: int) -> bytes:
    """Encode the user data of ``sticky``, version 1: topics with partitions, and the generation."""
    topics: dict[str, list[int]] = {}
    for topic, number in assigned:
        topics.setdefault(topic, []).append(number)
    out = bytearray(_INT32.pack(len(topics)))
    for topic, numbers in topics.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name + struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers)
    return bytes(out + _INT32.pack(generation))


def decode_claim(data: bytes) -> Claim:
    """Decode user data; version 0 has no generation. Invalid data of other clients counts as no claim."""
    claimed: list[TopicPartition] = []
    try:
        (count,) = _INT32.unpack_from(data)
        pos = 4
        for _ in range(count):
            (length,) = _INT16.unpack_from(data, pos)
            if length < 0:
                return [], -1
            topic = data[pos + 2 : pos + 2 + length].decode()
            pos += 2 + length
            (size,) = _INT32.unpack_from(data, pos)
            pos += 4
            if not 0 <= size <= (len(data) - pos) // 4:
                return [], -1
            claimed += [TopicPartition(topic, number) for number in struct.unpack_from(f">{size}i", data, pos)]
            pos += 4 * size
        generation = _INT32.unpack_from(data, pos)[0] if len(data) - pos >= 4 else -1
    except (struct.error, UnicodeDecodeError):
        return [], -1
    return claimed, generation
