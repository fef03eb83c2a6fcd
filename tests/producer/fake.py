"""An in-memory cluster for the producer, with the broker's side of idempotence and injected failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from aiokproto.cluster import BrokerNode, ClusterClient, ClusterSnapshot, PartitionInfo, TopicInfo
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    BrokerConnectionError,
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    KafkaError,
    UnknownTopicError,
)
from aiokproto.net.versions import BrokerVersions
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.observers import ClusterObserver
from aiokproto.producer import Producer
from aiokproto.records import RecordBatch, decode
from tests.patience import PATIENCE

TOPIC_ID = bytes(range(16))

Make = Callable[..., AbstractAsyncContextManager[Producer]]
"""The fixture `make`: called with a `FakeCluster` and the producer's options."""


class PartitionLog:
    """A partition at the broker: its values in order, and its state of idempotent producers (KIP-98)."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.producer = (-1, -1)
        self.next = 0
        self.known: dict[tuple[int, int, int, int], int] = {}

    def append(self, data: bytes | bytearray | memoryview) -> int | ErrorCode:
        """Return the offset, or the error code with which the batch is rejected."""
        found = list(decode(data))
        batch = found[0]
        offset = len(self.values)
        if batch.base_sequence >= 0:
            producer = (batch.producer_id, batch.producer_epoch)
            key = (*producer, batch.base_sequence, batch.count)
            if key in self.known:
                return self.known[key]
            if producer[0] == self.producer[0] and producer[1] < self.producer[1]:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if producer[0] == self.producer[0]:
                expected = self.next if producer == self.producer else 0
            else:
                # A producer without state in the log may start with any sequence number.
                expected = batch.base_sequence
            if batch.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.producer, self.next = producer, expected + batch.count
            self.known[key] = offset
        self.values += [record.value for each in found for record in each]
        return offset


Answer = Callable[[int, ProduceRequest], Awaitable[ProduceResponse]]


class FakeCluster:
    """Stands in for :class:`aiokproto.cluster.ClusterClient`.

    Attributes:
        logs: Partition → its log.
        requests: Requests received, as ``(node, request)``.
        answer: How a Produce request is answered; tests replace it.
        down: Nodes that cannot be reached.
        invalidated: Reasons given.
        reported: By node, what it has reported on its open connection; without an entry it is asked again.
        producer_id: What the next InitProducerId returns, with ``producer_epoch``; an error is raised.
        idle: Whether connections are closed: :meth:`send_nowait` refuses until the next :meth:`send`.
        sent_nowait: Number of requests sent by :meth:`send_nowait`.
    """

    asked = ClusterClient.asked

    def __init__(self, partitions: int = 1, nodes: int = 1) -> None:
        self.config = SimpleNamespace(principal="")
        self.logs = [PartitionLog() for _ in range(partitions)]
        self.requests: list[tuple[int, ProduceRequest]] = []
        self.answer: Answer = self.append
        self.down: set[int] = set()
        self.invalidated: list[str] = []
        self.producer_id: int | Exception = 7
        self.producer_epoch = 0
        self.produce_version = 12
        self.idempotence = True
        self.closed = False
        self.reported: dict[int, BrokerVersions] = {}
        self.idle = False
        self.sent_nowait = 0
        self.snapshot = ClusterSnapshot(
            brokers={node: BrokerNode(node, "127.0.0.1", 9092 + node) for node in range(nodes)}, generation=1
        )
        self.partitions = tuple(PartitionInfo(number % nodes, 0) for number in range(partitions))
        self.topic_id = TOPIC_ID
        self.loop: object = None
        # What the producer uses of these parts is below.
        self.metadata = self.pool = self
        self.backoff = SimpleNamespace(delay=lambda attempt: 0.001)
        self.observer = ClusterObserver()
        self._news = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()

    def push_metrics(self, source: MetricSource) -> None:
        pass

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def close(self, timeout: float = 0.0) -> None:
        self.closed = True
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def check(self) -> None:
        if self.loop is not None and asyncio._get_running_loop() is not self.loop:
            raise ConfigurationError("this client was started in another event loop")

    def has_logged(self, error: BaseException) -> bool:
        return False

    async def topic(self, name: str, timeout: float, *, create: bool = False, keep: bool = True) -> TopicInfo:
        await asyncio.sleep(0)
        if name != "flights":
            raise UnknownTopicError(3, f"topic {name!r}")
        self.show(self.partitions)
        return self.snapshot.topics[name]

    def show(self, partitions: tuple[PartitionInfo, ...]) -> None:
        """Replace the cluster snapshot by its next generation."""
        self.snapshot = ClusterSnapshot(
            brokers=self.snapshot.brokers,
            topics={"flights": TopicInfo("flights", self.topic_id, partitions)},
            generation=self.snapshot.generation + 1,
        )
        news, self._news = self._news, asyncio.Event()
        news.set()

    def lead(self, node: int, partition: int = 0) -> None:
        """Move a partition's leader, and update the metadata."""
        changed = list(self.partitions)
        changed[partition] = PartitionInfo(node, changed[partition].leader_epoch + 1)
        self.partitions = tuple(changed)
        self.show(self.partitions)

    async def wait_for_update(self, generation: int) -> ClusterSnapshot:
        while self.snapshot.generation <= generation:
            await self._news.wait()
        return self.snapshot

    def invalidate(self, reason: str, topics: object = ()) -> None:
        self.invalidated.append(reason)

    def update_leader(self, topic: str, partition: int, leader: int, leader_epoch: int, endpoints: object = ()) -> bool:
        self.lead(leader, partition)
        return True

    @property
    def versions(self) -> BrokerVersions:
        batches = Versions(0, self.produce_version)
        others = {InitProducerIdRequest.api_key: Versions(0, 5), AddPartitionsToTxnRequest.api_key: Versions(0, 5)}
        return BrokerVersions({ProduceRequest.api_key: batches, **(others if self.idempotence else {})}, "the fake")

    def versions_of(self, node: int) -> BrokerVersions:
        """What a broker reports on a connection; tests replace it."""
        return self.versions

    async def broker_versions(self, node: int) -> BrokerVersions:
        return self.reported.setdefault(node, self.versions_of(node))

    def ready(self, node: int) -> SimpleNamespace | None:
        return SimpleNamespace(versions=self.reported[node]) if node in self.reported else None

    async def request(self, request: InitProducerIdRequest, *, timeout: float, hedged: bool) -> InitProducerIdResponse:
        await asyncio.sleep(0)
        if isinstance(self.producer_id, Exception):
            raise self.producer_id
        return InitProducerIdResponse(
            throttle_time_ms=0, error_code=0, producer_id=self.producer_id, producer_epoch=self.producer_epoch
        )

    async def send(
        self, request: ProduceRequest, node: int, *, timeout: float, max_version: int | None = None
    ) -> ProduceResponse:
        sent = self._write(request, node, max_version)
        self._reach(node)
        return await self._answered(node, sent, timeout)

    def _write(self, request: ProduceRequest, node: int, max_version: int | None) -> ProduceRequest:
        if self.closed:
            raise ClientClosedError("closed")
        # A copy, as on the wire: later changes to the batch do not change what was sent.
        version = min(12, 12 if max_version is None else max_version)
        sent = ProduceRequest.decode(request.encode(version), version)
        self.requests.append((node, sent))
        return sent

    def _reach(self, node: int) -> None:
        if node in self.down:
            raise BrokerConnectionError(f"broker {node}: connection refused")
        self.idle = False

    async def _answered(self, node: int, sent: ProduceRequest, timeout: float) -> ProduceResponse:
        try:
            return await asyncio.wait_for(self.answer(node, sent), timeout)
        except asyncio.TimeoutError:
            raise DeadlineError(f"Produce to broker {node}: no answer in {timeout} s") from None

    def send_nowait(
        self,
        request: ProduceRequest,
        node: int,
        tell: Callable[[ProduceResponse | KafkaError], None],
        *,
        timeout: float,
        max_version: int | None = None,
    ) -> bool:
        if self.idle:
            return False
        self.sent_nowait += 1
        sent = self._write(request, node, max_version)
        self._reach(node)

        async def answer() -> None:
            try:
                outcome: ProduceResponse | KafkaError = await self._answered(node, sent, timeout)
            except KafkaError as error:
                outcome = error
            tell(outcome)

        task = asyncio.get_running_loop().create_task(answer())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return True

    async def send_oneway(
        self, request: ProduceRequest, node: int, *, max_version: int | None = None, **_: Any
    ) -> None:
        await self.send(request, node, timeout=PATIENCE, max_version=max_version)

    async def append(self, node: int, request: ProduceRequest) -> ProduceResponse:
        """Answer as a healthy leader does."""
        return self.respond(request, lambda data: self._store(node, data))

    def _store(self, node: int, data: PartitionProduceData) -> PartitionProduceResponse:
        if self.partitions[data.index].leader != node:
            return PartitionProduceResponse(
                index=data.index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1
            )
        assert data.records is not None
        offset = self.logs[data.index].append(data.records)
        if isinstance(offset, ErrorCode):
            return PartitionProduceResponse(index=data.index, error_code=offset, base_offset=-1)
        return PartitionProduceResponse(index=data.index, error_code=0, base_offset=offset)

    def respond(
        self, request: ProduceRequest, each: Callable[[PartitionProduceData], PartitionProduceResponse]
    ) -> ProduceResponse:
        """Return a response with the result of ``each`` for every partition."""
        return ProduceResponse(
            responses=[
                TopicProduceResponse(name=topic.name, partition_responses=[each(data) for data in topic.partition_data])
                for topic in request.topic_data
            ]
        )

    def fail_next(self, *codes: ErrorCode, message: str | None = None) -> None:
        """Answer the next requests with these codes, one each, and store nothing; then go on as before."""
        left, then = list(codes), self.answer

        async def answer(node: int, request: ProduceRequest) -> ProduceResponse:
            if not left:
                return await then(node, request)
            code = left.pop(0)
            return self.respond(
                request,
                lambda data: PartitionProduceResponse(
                    index=data.index, error_code=code, base_offset=-1, error_message=message
                ),
            )

        self.answer = answer


@asynccontextmanager
async def producer_on(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, **options: Any) -> AsyncIterator[Producer]:
    """A producer whose cluster is the fake; closed afterwards without waiting for what cannot be delivered."""
    monkeypatch.setattr("aiokproto.producer.producer.ClusterClient", lambda config, last_used: fake)
    given: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:9", "linger_ms": 0, **options}
    producer = Producer(**given)
    await producer.start()
    try:
        yield producer
    finally:
        try:
            await producer.close(timeout_ms=0)
        except DeadlineError:
            pass


def grow_old(producer: Producer) -> None:
    """Make all records without an outcome expire, without waiting for the delivery timeout."""
    for batch in producer._accumulator.incomplete:
        batch.created -= 1e6
    assert producer._sender is not None
    producer._sender.timer.call_soon()


def batches(fake: FakeCluster) -> list[RecordBatch]:
    """Return the batches of all Produce requests, in order."""
    return [
        RecordBatch(data.records)
        for _, request in fake.requests
        for topic in request.topic_data
        for data in topic.partition_data
        if data.records is not None
    ]
