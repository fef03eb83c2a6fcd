"""A consumer group with a clock that only tests advance, and its members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartitions
from aiokproto.broker.groups.consumer import records, subscriptions
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ConsumerHeartbeat
from aiokproto.broker.groups.epoch_group import GroupSettings
from aiokproto.broker.groups.image import Image
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

SESSION, REBALANCE = 45.0, 60.0
A, B = b"a" * 16, b"b" * 16


class Topics(subscriptions.Topics):
    """Topics with given numbers of partitions."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes

    def find(self, name: str) -> tuple[bytes, int] | None:
        return (name[0].encode() * 16, self.sizes[name]) if name in self.sizes else None

    def name(self, topic_id: bytes) -> str | None:
        return next((name for name in self.sizes if name[0].encode() * 16 == topic_id), None)

    def names(self) -> Iterable[str]:
        return list(self.sizes)


def anything(name: str) -> bool:
    """The describe permission of a client that can describe all topics."""
    return bool(name)


def places(topic_id: bytes, *indexes: int) -> TopicIdPartitions:
    return frozenset((topic_id, index) for index in indexes)


@dataclass
class Client:
    """A member from the client's point of view: what it owns, and what it was assigned."""

    member_id: str
    topics: frozenset[str] = frozenset({"a"})
    regex: str = ""
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: TopicIdPartitions = frozenset()
    assigned: TopicIdPartitions = frozenset()
    joined: bool = field(default=False)


class Harness:
    """A group, its topics and the time."""

    def __init__(self, max_size: int = 100, **sizes: int) -> None:
        self.topics = Topics(**(sizes or {"a": 4}))
        self.settings = GroupSettings(SESSION, 5.0, max_size)
        self.group = ConsumerGroup("g", self.topics, self.settings)
        self.now = 1000.0
        self.describable: Callable[[str], bool] = anything
        self.image: Image = {}

    def join(self, client: Client) -> HeartbeatResult:
        client.owned = client.assigned = frozenset()
        heartbeat = ConsumerHeartbeat(
            client.member_id,
            0,
            client.instance_id,
            None,
            REBALANCE,
            client.topics,
            client.regex,
            client.assignor,
            frozenset(),
            describable=self.describable,
        )
        return self._apply(client, self.group.heartbeat(heartbeat, self.now))

    def heartbeat(self, client: Client, silent: bool = False) -> HeartbeatResult:
        owned = None if silent else client.owned
        heartbeat = ConsumerHeartbeat(
            client.member_id, client.epoch, client.instance_id, owned=owned, describable=self.describable
        )
        return self._apply(client, self.group.heartbeat(heartbeat, self.now))

    def _apply(self, client: Client, answer: HeartbeatResult) -> HeartbeatResult:
        client.joined, client.epoch = True, answer.epoch
        if answer.assigned is not None:
            client.assigned = answer.assigned
        return answer

    def work(self, *clients: Client) -> None:
        """Send heartbeats that follow the assignments until nothing changes any more."""
        for _ in range(4 + len(clients)):
            for client in clients:
                self.heartbeat(client)
                client.owned = client.assigned

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (deadline := self.group.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.group.tick(self.now)
        self.now = end

    def save(self) -> list[tuple[bytes, bytes | None]]:
        written = records.changes(self.group, self.image, 0)
        self.group.changed = False
        self.group.dirty.clear()
        return written

    def restart(self) -> None:
        """Restore the group at another coordinator from the records that this one has written."""
        self.save()
        self.group = ConsumerGroup("g", self.topics, self.settings)
        records.restore(self.group, self.image, self.now)


def refused(code: ErrorCode) -> pytest.RaisesExc[BrokerError]:
    return pytest.RaisesExc(BrokerError, check=lambda error: error.code is code)
