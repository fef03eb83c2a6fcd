"""A minimal client: frames over one connection, and nothing shared with this package's client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Protocol, TypeVar, cast

from aiokproto.broker import Cluster
from aiokproto.codec.frames import decode_response, encode_request, response_correlation_id
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from aiokproto.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from aiokproto.codec.schema import Request, Response
from aiokproto.records import BatchBuilder, BatchRecord, decode
from tests.timeouts import LONG_TIMEOUT

R = TypeVar("R", bound=Response)

NOW = 1_700_000_000_000


class Addressed(Protocol):
    """An object that has an address."""

    @property
    def bootstrap_servers(self) -> str: ...


class Wire:
    """One connection to one node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.client_id = "test"
        self._ids = count(1)

    def send(self, request: Request[R], version: int | None = None) -> int:
        """Write a request, and return its correlation id."""
        correlation_id = next(self._ids)
        chosen = type(request).versions.highest if version is None else version
        self.writer.write(encode_request(request, chosen, correlation_id, self.client_id))
        return correlation_id

    async def frame(self) -> bytes:
        """The next response frame."""
        size = int.from_bytes(await asyncio.wait_for(self.reader.readexactly(4), LONG_TIMEOUT), "big")
        return await asyncio.wait_for(self.reader.readexactly(size), LONG_TIMEOUT)

    async def ask(self, request: Request[R], version: int | None = None) -> R:
        """Send a request and read its answer."""
        correlation_id = self.send(request, version)
        frame = await self.frame()
        assert response_correlation_id(frame) == correlation_id
        chosen = type(request).versions.highest if version is None else version
        return decode_response(frame, cast("type[R]", request.response), chosen)

    async def closed(self) -> bool:
        """Wait for the broker to say something, and return whether it closed the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(1), LONG_TIMEOUT) == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def connect(cluster: Addressed, node: int = 0) -> AsyncIterator[Wire]:
    """Connect to a node of the cluster."""
    async with connect_to(cluster.bootstrap_servers.split(",")[node]) as wire:
        yield wire


@asynccontextmanager
async def connect_to(address: str, context: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    """Connect to ``host:port``, encrypted if there is a context."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            pass


def batch(values: Iterable[bytes], timestamp: int = NOW, **producer: Any) -> bytes:
    """Return a batch as a producer sends it."""
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp, None, value)
    return bytes(builder.close(**producer))


def produce_request(topic: str, data: bytes | None, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """Return a Produce request by topic name (v3-12)."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=int(LONG_TIMEOUT * 1000),
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])],
    )


async def produce(
    wire: Wire, topic: str, data: bytes | None, partition: int = 0, version: int = 12
) -> PartitionProduceResponse:
    """Produce to one partition."""
    response = await wire.ask(produce_request(topic, data, partition), version)
    return response.responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    """Return a Fetch request of one partition by topic name (v4-12)."""
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=current_leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


async def parked(cluster: Cluster, topic: str = "t", partition: int = 0) -> None:
    """Wait until a Fetch waits at an embedded broker for a change of a partition."""
    while not cluster._running.state.partition(topic, partition).watchers:
        await asyncio.sleep(0)


def records_of(response: FetchResponse) -> list[BatchRecord]:
    """Return all records of a response."""
    return [
        record
        for topic in response.responses
        for partition in topic.partitions
        for batch in decode(partition.records or b"")
        for record in batch
    ]
