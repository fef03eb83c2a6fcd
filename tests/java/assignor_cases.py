"""Groups over several generations, for comparing assignors with Java's: seeded, and each assignment feeds the next."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiokproto.codec.payloads.consumer_protocol import ConsumerProtocolSubscription
from aiokproto.codec.payloads.consumer_protocol import TopicPartition as TopicPartitions
from aiokproto.group.assignors import Assignment, Assignor, Subscription, make_assignors
from aiokproto.group.assignors.hash_order import hash_order
from aiokproto.group.assignors.member_data import MemberData
from aiokproto.group.assignors.sticky import cooperative_member_data, eager_member_data
from aiokproto.group.protocol import decode_subscription
from aiokproto.types import TopicPartition

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
GENERATIONS = 5
RACKS = ("a", "b", "c")
RARE = [("sticky", 2465), ("sticky", 3250), ("cooperative-sticky", 2129), ("cooperative-sticky", 2705)]
"""Histories in which a partition moves back to a member from which more than twelve others of its topic have moved: the
table that decides which one has grown then."""
CLIENTS = ("consumer-report-1", "c", "größe", "客户", "\U0001f680", "\uff21")
"""A member id starts with the client id. The last two sort differently by UTF-16 units and by code points."""


@dataclass
class Member:
    """A member, as the test remembers it between generations."""

    topics: list[str]
    instance_id: str | None
    rack: str | None
    assigned: list[TopicPartition] = field(default_factory=list)
    generation: int = -1


@dataclass(frozen=True)
class Case:
    """What the leader's assignor gets.

    Attributes:
        assignor: Its name.
        topics: Topic → for each partition the racks of its replicas, None for a broker without one.
        members: Member id → (instance id, encoded subscription).
    """

    assignor: str
    topics: dict[str, list[list[str | None]]]
    members: dict[str, tuple[str | None, bytes]]

    @property
    def partitions(self) -> dict[str, int]:
        return {topic: len(partitions) for topic, partitions in self.topics.items()}

    @property
    def racks(self) -> dict[str, list[frozenset[str]]]:
        return {
            topic: [frozenset(rack for rack in racks if rack is not None) for racks in partitions]
            for topic, partitions in self.topics.items()
        }

    @property
    def claims(self) -> list[TopicPartition]:
        """Return what all members claim to own."""
        return [partition for said in self.subscriptions.values() for partition in self.claim_of(said).partitions]

    def claim_of(self, said: Subscription) -> MemberData:
        """Return what a member claims to own."""
        return eager_member_data(said) if self.assignor == "sticky" else cooperative_member_data(said)

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        return {member: decode_subscription(data, instance) for member, (instance, data) in self.members.items()}

    def assign(self) -> Assignment:
        """Return our assignment."""
        [assignor] = make_assignors([self.assignor])
        return assignor.assign(self.partitions, self.subscriptions, self.racks)

    def for_java(self) -> dict[str, Any]:
        members = [[member, instance, data.hex()] for member, (instance, data) in self.members.items()]
        return {"assignor": self.assignor, "topics": self.topics, "members": members}


class History:
    """A group from its first generation on: members and topics come, change and go."""

    def __init__(self, assignor: str, seed: int) -> None:
        self._random = random.Random(f"{assignor} {seed}")
        self._assignor = assignor
        self._member_racks = self._random.choice([(None,), (None,), RACKS, (None, "", *RACKS)])
        self._replica_racks = self._random.choice([(None,), RACKS, (*RACKS, "d"), (None, "a", "b")])
        self._uneven = self._random.random() < 0.5
        self._careless = self._random.random() < 0.4
        self._largest = self._random.choice([1, 3, 8, 30])
        self._topics: dict[str, list[list[str | None]]] = {}
        self._members: dict[str, Member] = {}
        self._generation = 0
        for _ in range(self._random.choice([1, 2, 3, 5, 20])):
            self._create_topic()
        self._common = self._choose_topics()
        for _ in range(self._random.choice([1, 2, 3, 5, 9, 20])):
            self._join()

    def cases(self) -> Iterator[Case]:
        for _ in range(GENERATIONS):
            case = Case(self._assignor, {**self._topics}, self._subscriptions())
            yield case
            self._generation += self._random.choice([1, 1, 2])
            for member, assigned in case.assign().items():
                # A member that misses a generation still claims what it had before.
                if not self._careless or self._random.random() < 0.7:
                    self._members[member].assigned = list(assigned)
                    self._members[member].generation = self._generation
            self._change()

    def _change(self) -> None:
        for event in self._random.sample(self._events(), self._random.choice([0, 1, 1, 2])):
            event()
        if self._careless and self._random.random() < 0.5:
            self._random.choice([self._claim_twice, self._take_over])()

    def _events(self) -> list[Any]:
        events = [self._join, self._leave, self._grow, self._create_topic, self._subscribe_again, self._move_rack]
        return [*events, self._delete_topic, self._shrink] if self._careless else events

    def _create_topic(self) -> None:
        name = self._random.choice(["t", "topic.", "Orders-", "_"]) + str(self._random.randrange(500))
        size = self._random.choice([0, 1, self._largest, self._random.randint(1, self._largest)])
        self._topics[name] = [self._replicas() for _ in range(size)]

    def _replicas(self) -> list[str | None]:
        count = self._random.choice([1, 2, 3])
        return self._random.sample(self._replica_racks, min(count, len(self._replica_racks)))

    def _choose_topics(self) -> list[str]:
        names = [*self._topics, "unknown"]
        return self._random.sample(names, self._random.randint(1, len(names)))

    def _join(self) -> None:
        member = f"{self._random.choice(CLIENTS)}-{self._random.getrandbits(64):x}"
        instance = f"worker-{self._random.getrandbits(16)}" if self._random.random() < 0.4 else None
        topics = self._choose_topics() if self._uneven else self._shuffled(self._common)
        if self._careless and self._random.random() < 0.1:
            topics = []
        self._members[member] = Member(topics, instance, self._random.choice(self._member_racks))

    def _shuffled(self, topics: list[str]) -> list[str]:
        return self._random.sample(topics, len(topics))

    def _leave(self) -> None:
        if len(self._members) > 1:
            del self._members[self._random.choice(list(self._members))]

    def _subscribe_again(self) -> None:
        if self._uneven:
            self._random.choice(list(self._members.values())).topics = self._choose_topics()
        else:
            self._common = self._choose_topics()
            for member in self._members.values():
                member.topics = self._shuffled(self._common)

    def _move_rack(self) -> None:
        self._random.choice(list(self._members.values())).rack = self._random.choice(self._member_racks)

    def _grow(self) -> None:
        for topic in self._random.sample(list(self._topics), min(2, len(self._topics))):
            more = [self._replicas() for _ in range(self._random.randint(1, 4))]
            self._topics[topic] = self._topics[topic] + more

    def _shrink(self) -> None:
        if self._topics:
            topic = self._random.choice(list(self._topics))
            self._topics[topic] = self._topics[topic][: len(self._topics[topic]) // 2]

    def _delete_topic(self) -> None:
        if self._topics:
            del self._topics[self._random.choice(list(self._topics))]

    def _claim_twice(self) -> None:
        members = list(self._members.values())
        first, second = self._random.choice(members), self._random.choice(members)
        first.assigned = self._random.sample(first.assigned + second.assigned, len(first.assigned + second.assigned))
        if self._random.random() < 0.5:
            first.generation = second.generation

    def _take_over(self) -> None:
        """Let a member own what others claim from earlier generations, so that it has far more than they have."""
        newest, *others = self._random.sample(list(self._members.values()), min(6, len(self._members)))
        newest.generation = self._generation
        newest.assigned = self._all_of(newest)
        for other in others:
            other.generation = max(-1, self._generation - self._random.choice([1, 1, 2]))
            all_of_other = self._all_of(other)
            other.assigned = self._random.sample(all_of_other, len(all_of_other) // self._random.choice([2, 4]))

    def _all_of(self, member: Member) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number)
            for topic in member.topics
            for number in range(len(self._topics.get(topic, ())))
        ]

    def _subscriptions(self) -> dict[str, tuple[str | None, bytes]]:
        members = self._random.sample(list(self._members), len(self._members))
        return {member: (self._members[member].instance_id, self._encode(self._members[member])) for member in members}

    def _encode(self, member: Member) -> bytes:
        version = self._random.choice([0, 1, 2, 3]) if self._careless else 3
        assignor = self._with_history(member)
        user_data = assignor.user_data(member.topics)
        if user_data and self._careless:
            # Older versions send no generation, and some clients send something else.
            user_data = self._random.choice(
                [user_data] * 6 + [user_data[:-4], b"", b"\x00\x00\x00\x05abc", user_data + b"x"]
            )
        owned = member.assigned if assignor.cooperative else []
        message = ConsumerProtocolSubscription(
            topics=member.topics,
            user_data=user_data,
            owned_partitions=[TopicPartitions(topic=topic, partitions=[number]) for topic, number in owned],
            generation_id=member.generation,
            rack_id=member.rack,
        )
        return struct.pack(">h", version) + message.encode(version)

    def _with_history(self, member: Member) -> Assignor:
        [assignor] = make_assignors([self._assignor])
        if member.generation >= 0:
            assignor.on_assignment(member.assigned, member.generation)
        return assignor


def histories(count: int) -> list[Case]:
    """Return the cases of ``count`` histories with each assignor, and of those with :data:`RARE` events."""
    chosen = [(assignor, seed) for assignor in ASSIGNORS for seed in range(count)] + RARE
    return [case for assignor, seed in chosen for case in History(assignor, seed).cases()]


def violation(case: Case, assignment: Assignment) -> str:
    """Return why an assignment is invalid; empty if it's valid."""
    members = case.subscriptions
    seen: set[TopicPartition] = set()
    for member, assigned in assignment.items():
        for partition in assigned:
            if not 0 <= partition.partition < case.partitions.get(partition.topic, 0):
                return f"{partition} does not exist"
            if partition.topic not in members[member].topics:
                return f"{member} does not read {partition}"
            if partition in seen:
                return f"{partition} is assigned twice"
            seen.add(partition)
    owned = {partition for said in members.values() for partition in said.owned_partitions}
    wanted = {topic for said in members.values() for topic in said.topics}
    for topic in sorted(wanted):
        for number in range(case.partitions.get(topic, 0)):
            # In a cooperative group, the owner has to give the partition up first.
            if (topic, number) not in seen and (topic, number) not in owned:
                return f"{topic}-{number} is not assigned"
    return ""


def confuses_java(case: Case) -> str:
    """Return which defect of Java's sticky assignors a case meets; empty if none.

    They believe claims of partitions that their topic does not have (any more); they let a partition go back to a
    member that claims it from an earlier generation, but does not read the topic any more; and a member without topics
    that comes first in the hash table counts as reading what the next one reads.
    """
    members = case.subscriptions
    if "sticky" not in case.assignor:
        return ""
    first = members[hash_order(members)[0]]
    if not first.topics and any(said.topics for said in members.values()):
        return "a member without topics comes first"
    claims = [(said, case.claim_of(said)) for said in members.values()]
    latest = max(claim.generation for _, claim in claims)
    for said, claim in claims:
        for topic, number in claim.partitions:
            if not 0 <= number < case.partitions.get(topic, number + 1):
                return "a partition is claimed that does not exist"
            if topic not in said.topics and claim.generation < latest:
                return "a partition of a topic is claimed that is not read"
    return ""
