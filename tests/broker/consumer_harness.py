"""A consumer group with a clock that only tests advance, and its members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartition
from aiokproto.broker.groups.consumer import records
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ConsumerHeartbeat
from aiokproto.broker.groups.epoch_group import GroupSettings
from aiokproto.broker.groups.reconciliation import LEAVE_GROUP_MEMBER_EPOCH
from tests.broker.epoch_harness import REBALANCE, SESSION, EpochClient, EpochHarness


def anything(name: str) -> bool:
    """Return whether a client can describe a topic: this one can describe all topics."""
    return bool(name)


@dataclass
class Client(EpochClient[TopicIdPartition]):
    """A member of a consumer group."""

    topics: frozenset[str] = frozenset({"a"})
    regex: str = ""
    instance_id: str | None = None
    assignor: str | None = None


class Harness(EpochHarness[ConsumerGroup, Client, HeartbeatResult]):
    """A consumer group, its topics and the time."""

    records: ClassVar[Any] = records

    def __init__(self, max_size: int = 100, **sizes: int) -> None:
        self.settings = GroupSettings(SESSION, 5.0, max_size)
        self.describable: Callable[[str], bool] = anything
        super().__init__(**sizes)

    def _new_group(self) -> ConsumerGroup:
        return ConsumerGroup("g", self.topics, self.settings)

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

    def leave(self, client: Client) -> None:
        self.group.leave(client.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)
