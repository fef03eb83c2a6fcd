"""Scripted brokers of one cluster, whose addresses and topics a test can change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokproto.codec.schema import Request, Response
from tests.net.peer import Answer, Peer, config, peer, serves

VERSIONS = serves(
    Metadata=(0, 13),
    FindCoordinator=(0, 6),
    Heartbeat=(0, 4),
    CreateTopics=(2, 7),
    ListGroups=(0, 4),
    DescribeCluster=(0, 2),
)


class Fake:
    """The state of a cluster: topic → the leader and epoch of each partition, or an error code."""

    def __init__(self) -> None:
        self.brokers: dict[int, int] = {}
        self.controller = 1
        self.leaders: dict[str, list[tuple[int, int]]] = {}
        self.errors: dict[str, int] = {}
        self.coordinators: dict[str, int] = {}
        self.metadata_requests: list[MetadataRequest] = []
        self.silent = False
        self._changes: dict[int, Callable[[], None]] = {}

    def from_request(self, number: int, change: Callable[[], None]) -> None:
        """Call ``change`` before Metadata request ``number``, counted from 1, is answered."""
        self._changes[number] = change

    def metadata(self, request: MetadataRequest, version: int) -> Response | None:
        self.metadata_requests.append(request)
        if change := self._changes.pop(len(self.metadata_requests), None):
            change()
        if self.silent:
            return None
        nodes = [MetadataResponseBroker(node_id=id_, host="127.0.0.1", port=port) for id_, port in self.brokers.items()]
        names = [*self.leaders] if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=nodes,
            controller_id=self.controller,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        error = self.errors.get(name, 0 if name in self.leaders else 3)
        partitions = [
            MetadataResponsePartition(
                error_code=0 if leader >= 0 else 5,
                partition_index=index,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1],
                isr_nodes=[1],
            )
            for index, (leader, epoch) in enumerate(self.leaders.get(name, []))
        ]
        return MetadataResponseTopic(error_code=error, name=name, partitions=[] if error else partitions)

    def coordinator(self, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        key = request.key or request.coordinator_keys[0]
        node = self.coordinators.get(key)
        code, id_, port = (15, -1, -1) if node is None else (0, node, self.brokers[node])
        if version < 4:
            return FindCoordinatorResponse(error_code=code, node_id=id_, host="127.0.0.1", port=port)
        found = Coordinator(key=key, node_id=id_, host="127.0.0.1", port=port, error_code=code, error_message=None)
        return FindCoordinatorResponse(coordinators=[found])

    def answers(self, more: dict[type[Request[Any]], Answer] | None = None) -> dict[type[Request[Any]], Answer]:
        return {
            ApiVersionsRequest: VERSIONS,
            MetadataRequest: self.metadata,
            FindCoordinatorRequest: self.coordinator,
            HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=0),
            **(more or {}),
        }


@asynccontextmanager
async def brokers(
    count: int = 1, more: dict[type[Request[Any]], Answer] | None = None, port: int = 0
) -> AsyncIterator[tuple[Fake, list[Peer]]]:
    """Brokers 1 to ``count`` that share one state; peer ``i`` is broker ``i + 1``. One alone may have a fixed port."""
    fake = Fake()
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(peer(fake.answers(more), port)) for _ in range(count)]
        fake.brokers = {number: one.port for number, one in enumerate(peers, 1)}
        yield fake, peers


@asynccontextmanager
async def started(*ports: int, **changes: Any) -> AsyncIterator[ClusterClient]:
    """A started client with these local ports as bootstrap addresses."""
    servers = tuple(("127.0.0.1", port) for port in ports)
    cluster = ClusterClient(config(bootstrap_servers=servers, **changes))
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()
