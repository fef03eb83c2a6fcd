"""What the harnesses of consumer, share and streams groups have in common: topics, members and a clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartitions
from aiokproto.broker.groups.consumer import subscriptions
from aiokproto.broker.groups.epoch_group import EpochGroup
from aiokproto.broker.groups.image import Image
from aiokproto.broker.groups.share.group import ShareGroup
from aiokproto.broker.groups.streams.group import StreamsHeartbeatResult
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


def partition_ids(topic_id: bytes, *indexes: int) -> TopicIdPartitions:
    return frozenset((topic_id, index) for index in indexes)


def refused(code: ErrorCode) -> pytest.RaisesExc[BrokerError]:
    return pytest.RaisesExc(BrokerError, check=lambda error: error.code is code)


P = TypeVar("P", bound=Hashable)


@dataclass
class EpochClient(Generic[P]):
    """A member from the client's point of view: what it owns, and what it was assigned."""

    member_id: str
    epoch: int = field(default=0, kw_only=True)
    owned: frozenset[P] = field(default_factory=frozenset, kw_only=True)
    assigned: frozenset[P] = field(default_factory=frozenset, kw_only=True)
    joined: bool = field(default=False, kw_only=True)

    def reset(self) -> None:
        """Own nothing, and join with the next heartbeat."""
        self.joined, self.epoch, self.owned, self.assigned = False, 0, frozenset(), frozenset()


G = TypeVar("G", bound="EpochGroup[Any, Any] | ShareGroup")
C = TypeVar("C", bound=EpochClient[Any])
R = TypeVar("R", bound=HeartbeatResult | StreamsHeartbeatResult)


class EpochHarness(ABC, Generic[G, C, R]):
    """A group, its topics and the time.

    Attributes:
        records: The module that writes the group's records, and restores the group from them.
    """

    records: ClassVar[Any]

    def __init__(self, **sizes: int) -> None:
        self.topics = Topics(**(sizes or {"a": 4}))
        self.now = 1000.0
        self.image: Image = {}
        self.group = self._new_group()

    @abstractmethod
    def _new_group(self) -> G: ...

    @abstractmethod
    def join(self, client: C) -> R: ...

    @abstractmethod
    def heartbeat(self, client: C) -> R: ...

    @abstractmethod
    def leave(self, client: C) -> None: ...

    def _apply(self, client: C, result: R) -> R:
        client.joined, client.epoch = True, result.epoch
        if result.assigned is not None:
            client.assigned = result.assigned
        return result

    def work(self, *clients: C) -> None:
        """Send heartbeats that follow the assignments until nothing changes any more."""
        for _ in range(6 + 2 * len(clients)):
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
        """Write the group's records, and return them."""
        written: list[tuple[bytes, bytes | None]] = self.records.changes(self.group, self.image, int(self.now))
        self.group.changed = False
        self.group.dirty.clear()
        return written

    def restart(self) -> None:
        """Restore the group at another coordinator from the records that this one has written."""
        self.save()
        self.group = self._new_group()
        self.records.restore(self.group, self.image, self.now)
