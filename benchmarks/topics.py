"""Topics to measure with, created and filled without any of the clients: plain requests over plain sockets."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TypeVar, cast

from aiokproto import records
from aiokproto.codec import frames
from aiokproto.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode

R = TypeVar("R", bound=Response)
Address = tuple[str, int]
Pairs = Iterator[tuple[bytes | None, bytes]]

TIMEOUT = 60.0
# A broker finishes creating thousands of topics long after it has responded.
MANY_TIMEOUT = 300.0
LATEST = -1
ALL = -1
CREATED_AT_ONCE = 500
# Records must not expire while they are measured, and need not be kept afterwards.
CONFIG = {"retention.ms": "-1", "retention.bytes": "-1", "file.delete.delay.ms": "0"}
VERSIONS = {
    MetadataRequest: 8,
    CreateTopicsRequest: 4,
    DeleteTopicsRequest: 3,
    ListOffsetsRequest: 5,
    ProduceRequest: 8,
}
"""Versions that brokers have had since 2.4 and still have."""


class TopicError(Exception):
    """A broker rejected a request; names the topic and the reason."""


@dataclass(frozen=True)
class Fill:
    """The records that a topic is filled with."""

    messages: int
    values: Sequence[bytes]
    batch_bytes: int
    compression: str = "none"
    keys: Sequence[bytes | None] = (None,)


class Topics:
    """The topics of the cluster at ``bootstrap``. Every method returns when its change is visible."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = [_address(server) for server in bootstrap.split(",")]
        self._connections: dict[Address, socket.socket] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def create(self, name: str, partitions: int) -> None:
        """Create a topic; returns once each of its partitions can be used."""
        self._create([name], partitions)
        self._await(name, partitions, TIMEOUT)

    def create_all(self, names: Sequence[str]) -> None:
        """Create topics of one partition, some hundreds in each request; returns once the last can be used."""
        for start in range(0, len(names), CREATED_AT_ONCE):
            self._create(names[start : start + CREATED_AT_ONCE], 1)
        self._await(names[-1], 1, MANY_TIMEOUT)

    def _await(self, name: str, partitions: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._serves(name, partitions):
            if time.monotonic() > deadline:
                raise TopicError(f"topic {name} is not served after {timeout:g} s")
            time.sleep(0.02)

    def _create(self, names: Iterable[str], partitions: int) -> None:
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in CONFIG.items()]
        topics = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=configs)
            for name in names
        ]
        for created in self._ask(CreateTopicsRequest(topics=topics), self._controller()).topics:
            _check(f"creating topic {created.name}", created.error_code)

    def _serves(self, name: str, partitions: int) -> bool:
        """Whether every leader knows that it is one, which it may learn later than other brokers."""
        ends = self._ends(name)
        return len(ends) == partitions and all(code == ErrorCode.NONE for code, _ in ends.values())

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=int(TIMEOUT * 1000))
        _check(f"deleting topic {name}", self._ask(request, self._controller()).responses[0].error_code)

    def leaders(self, name: str) -> dict[int, Address]:
        """Partition → its leader, of those that have one."""
        metadata = self._metadata(name)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        return {
            partition.partition_index: brokers[partition.leader_id]
            for partition in metadata.topics[0].partitions
            if partition.error_code == ErrorCode.NONE and partition.leader_id in brokers
        }

    def count(self, name: str) -> int:
        """The sum of the end offsets: how many messages there are, as nothing is cleaned away."""
        ends = self._ends(name)
        for partition, (code, _) in ends.items():
            _check(f"the end of {name}-{partition}", code)
        return sum(offset for _, offset in ends.values())

    def _ends(self, name: str) -> dict[int, tuple[int, int]]:
        """Partition → error code and end offset, as its leader says."""
        ends = {}
        for partition, leader in self.leaders(name).items():
            one = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[one])])
            answer = self._ask(request, leader).topics[0].partitions[0]
            ends[partition] = answer.error_code, answer.offset
        return ends

    def fill(self, name: str, fill: Fill) -> None:
        """Write ``messages`` values, spread evenly, in batches as a busy producer makes them."""
        leaders = self.leaders(name)
        share, rest = divmod(fill.messages, len(leaders))
        left = {partition: share + (partition < rest) for partition in leaders}
        # Together, so that a batch that is full loses neither.
        values = zip(cycle(fill.keys), cycle(fill.values), strict=True)
        for leader in set(leaders.values()):
            own = {partition: left[partition] for partition in leaders if leaders[partition] == leader}
            for data in _rounds(own, values, fill):
                topic = TopicProduceData(name=name, partition_data=data)
                request = ProduceRequest(acks=ALL, timeout_ms=int(TIMEOUT * 1000), topic_data=[topic])
                for result in self._ask(request, leader).responses[0].partition_responses:
                    _check(f"filling {name}-{result.index}", result.error_code)

    def _controller(self) -> Address:
        metadata = self._metadata()
        for broker in metadata.brokers:
            if broker.node_id == metadata.controller_id:
                return broker.host, broker.port
        raise TopicError("the cluster has no controller")

    def _metadata(self, *names: str) -> MetadataResponse:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return self._ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), self._bootstrap[0])

    def _ask(self, request: Request[R], address: Address) -> R:
        version = VERSIONS[type(request)]
        connection = self._connection(address)
        connection.sendall(frames.encode_request(request, version, 1, "benchmarks"))
        (length,) = struct.unpack(">i", _exactly(connection, 4))
        return frames.decode_response(_exactly(connection, length), cast("type[R]", request.response), version)

    def _connection(self, address: Address) -> socket.socket:
        known = self._connections.get(address)
        # No request is sent while a client is measured, and brokers close idle connections. With no
        # response due, the end of the stream is all there can be to read.
        if known is not None and select.select([known], [], [], 0)[0]:
            known.close()
            known = None
        if known is None:
            known = self._connections[address] = socket.create_connection(address, TIMEOUT)
        return known


def _rounds(left: dict[int, int], values: Pairs, fill: Fill) -> Iterator[list[PartitionProduceData]]:
    """What goes into each request: the next batch of every partition that is not full yet."""
    while left:
        data = []
        for partition, messages in list(left.items()):
            builder = _batch(fill, values, messages)
            data.append(PartitionProduceData(index=partition, records=builder.close()))
            left[partition] -= builder.count
            if not left[partition]:
                del left[partition]
        yield data


def _batch(fill: Fill, values: Pairs, most: int) -> records.BatchBuilder:
    """A batch of at most so many messages, as full as can be."""
    builder = records.BatchBuilder(max_bytes=fill.batch_bytes, compression=records.Compression.parse(fill.compression))
    now = time.time_ns() // 1_000_000
    while builder.count < most and builder.append(now, *next(values)) is not None:
        pass
    return builder


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise TopicError(f"{connection.getpeername()} closed the connection")
        data += chunk
    return bytes(data)


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _check(doing: str, code: int) -> None:
    if code != ErrorCode.NONE:
        raise TopicError(f"{doing}: {ErrorCode(code).name}")
