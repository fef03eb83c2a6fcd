"""Requests to the broker that coordinates a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from aiokproto.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from tests.broker.wire import Wire
from tests.clusters import BehaviourCluster

R = TypeVar("R", bound=Response)


class Coordinator:
    """A connection to a group's coordinator. After NOT_COORDINATOR it looks up the coordinator again."""

    def __init__(self, cluster: BehaviourCluster, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self._wire: Wire | None = None

    async def connect(self) -> Wire:
        """Return the connection, once a broker knows the coordinator. The first request creates the offsets topic."""
        while self._wire is None:
            for server in self.cluster.bootstrap_servers.split(","):
                host, port = server.split(":")
                try:
                    wire = Wire(*await asyncio.open_connection(host, int(port)))
                except OSError:
                    continue
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
                found = (await wire.ask(request)).coordinators[0]
                wire.writer.close()
                if found.error_code == 0:
                    self._wire = Wire(*await asyncio.open_connection(found.host, found.port))
                    break
            await asyncio.sleep(0)
        return self._wire

    def close(self) -> None:
        if self._wire is not None:
            self._wire.writer.close()
            self._wire = None

    async def ask(self, request: Request[R], error: Callable[[R], int], version: int | None = None) -> R:
        """Send a request until a coordinator is available."""
        while True:
            try:
                response = await (await self.connect()).ask(request, version)
            except (OSError, EOFError):
                self.close()
                await asyncio.sleep(0)
                continue
            if error(response) not in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
            ):
                return response
            self.close()

    async def heartbeat(
        self, member_id: str, epoch: int, version: int | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.group), member_id=member_id, member_epoch=epoch, **fields
        )
        return await self.ask(request, lambda response: response.error_code, version)

    async def describe(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=True)
        return (await self.ask(request, lambda response: response.groups[0].error_code)).groups[0]

    async def commit(
        self, member_id: str, epoch: int, topic: str, partition: int = 0, version: int = 9, offset: int = 7
    ) -> ErrorCode:
        requested_partition = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[requested_partition])],
        )
        response = await self.ask(request, lambda response: response.topics[0].partitions[0].error_code, version)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def fetch(self, member_id: str | None, epoch: int, topic: str) -> ErrorCode | int:
        """Return the committed offset of the topic's first partition, or the error."""
        requested_group = OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=member_id,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
        )
        response = await self.ask(
            OffsetFetchRequest(groups=[requested_group]), lambda response: response.groups[0].error_code, 9
        )
        (group,) = response.groups
        return ErrorCode(group.error_code) or group.topics[0].partitions[0].committed_offset

    async def partition(self) -> int:
        """Return the group's partition of the offsets topic, by Java's hash of its id."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")])
        count = len((await (await self.connect()).ask(request)).topics[0].partitions)
        value = 0
        for letter in self.group:
            value = (31 * value + ord(letter)) & 0xFFFFFFFF
        return abs(value - (1 << 32) if value >> 31 else value) % count

    async def topic_id(self, topic: str) -> bytes:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        response = await (await self.connect()).ask(request)
        return response.topics[0].topic_id

    async def listed(self, *types: str) -> dict[str, tuple[str, str]]:
        """Return type and state of this broker's groups of these types."""
        response = await self.ask(ListGroupsRequest(types_filter=list(types)), lambda response: response.error_code)
        return {group.group_id: (group.group_type, group.group_state) for group in response.groups}


@asynccontextmanager
async def coordinator(cluster: BehaviourCluster, group: str) -> AsyncIterator[Coordinator]:
    at = Coordinator(cluster, group)
    try:
        yield at
    finally:
        at.close()
