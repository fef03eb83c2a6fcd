"""Members of consumer, share and streams groups that follow their assignments, one heartbeat at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse, TopicPartitions
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from aiokproto.codec.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from tests.behaviour.coordinator import Coordinator

R = TypeVar("R", ConsumerGroupHeartbeatResponse, ShareGroupHeartbeatResponse, StreamsGroupHeartbeatResponse)


class EpochMember(ABC, Generic[R]):
    """A member of a group whose assignment the coordinator computes.

    Attributes:
        fields: The fields of a heartbeat that joins. The others repeat only the instance id.
        owned: Its partitions, by topic id.
    """

    def __init__(self, at: Coordinator, member_id: str, **fields: Any) -> None:
        self.at = at
        self.member_id = member_id
        self.fields = fields
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    @property
    def partitions(self) -> list[int]:
        return sorted(index for indexes in self.owned.values() for index in indexes)

    @abstractmethod
    async def send(self, epoch: int, **fields: Any) -> R:
        """Send a heartbeat."""

    def report(self) -> dict[str, Any]:
        """Return the fields that say what the member owns."""
        return {}

    def follow(self, response: Any) -> None:
        """Own what the response assigns."""
        if response.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}

    async def beat(self, **more: Any) -> R:
        """Send the next heartbeat, and follow the response."""
        static = {"instance_id": self.fields["instance_id"]} if "instance_id" in self.fields else {}
        fields = self.report() | (self.fields if self.epoch == 0 else static)
        response = await self.send(self.epoch, **fields | more)
        assert response.error_code == 0, response
        self.epoch = response.member_epoch
        self.follow(response)
        return response

    async def leave(self, epoch: int = -1) -> None:
        static = {"instance_id": self.fields["instance_id"]} if "instance_id" in self.fields else {}
        response = await self.send(epoch, **static)
        assert (response.error_code, response.member_id, response.member_epoch) == (0, self.member_id, epoch)
        self.epoch, self.owned = 0, {}


async def until(condition: Callable[[], bool], *members: EpochMember[Any]) -> None:
    """Send heartbeats until the condition is true."""
    while not condition():
        for member in members:
            await member.beat()


class ConsumerMember(EpochMember[ConsumerGroupHeartbeatResponse]):
    """A member of a consumer group."""

    def __init__(self, at: Coordinator, member_id: str, **fields: Any) -> None:
        super().__init__(at, member_id, **{"rebalance_timeout_ms": 30_000, **fields})

    async def send(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return await self.at.heartbeat(self.member_id, epoch, **fields)

    def report(self) -> dict[str, Any]:
        owned = [TopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in self.owned.items()]
        return {"topic_partitions": owned}


class ShareMember(EpochMember[ShareGroupHeartbeatResponse]):
    """A member of a share group."""

    def __init__(self, at: Coordinator, member_id: str, *topics: str, **fields: Any) -> None:
        super().__init__(at, member_id, subscribed_topic_names=list(topics), **fields)

    async def send(self, epoch: int, **fields: Any) -> ShareGroupHeartbeatResponse:
        return await share_heartbeat(self.at, self.member_id, epoch, **fields)


async def share_heartbeat(at: Coordinator, member_id: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatResponse:
    """Send a heartbeat of a share group."""
    named: dict[str, Any] = {"group_id": at.group, "member_id": member_id, "member_epoch": epoch}
    return await at.ask(ShareGroupHeartbeatRequest(**named | fields), lambda response: response.error_code)
