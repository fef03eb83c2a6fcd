"""Which broker each partition is fetched from, and what the Fetch requests contain."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from aiokproto.cluster import BrokerNode, ClusterSnapshot, PartitionInfo, TopicInfo
from aiokproto.codec.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from aiokproto.consumer.assignment import Assignment, Signals
from aiokproto.consumer.broker_fetcher import MAX_CHANGES, BrokerFetcher
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.fetch_request import FetchConfig
from aiokproto.consumer.fetcher import Fetcher
from aiokproto.consumer.position_validator import PositionValidator
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, KafkaError
from aiokproto.fetched.chunk import MAX_BATCHES
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.records import BatchBuilder
from aiokproto.types import TopicPartition

TOPIC_ID = b"t" * 16
Answer = Callable[[int, FetchRequest], FetchResponse | None]


def batch(base: int) -> bytes:
    builder = BatchBuilder()
    builder.append(0, None, b"x")
    return bytes(builder.close(base_offset=base))


def at_once_what_is_new(node: int, request: FetchRequest) -> FetchResponse | None:
    return FetchResponse(session_id=node + 1) if request.topics or not request.max_wait_ms else None


class Kafka:
    """Stands in for a :class:`aiokproto.cluster.ClusterClient`.

    Attributes:
        requests: Requests received, as ``(node, request)``.
        answer: Makes the response; None waits, as a long poll does, until :meth:`give`.
        polling: Whether a request waits.
    """

    def __init__(self, size: int, nodes: int = 1, *, known: bool = True) -> None:
        self.config = SimpleNamespace(max_response_size=100 << 20, request_timeout=30.0)
        self.metadata = self
        self.backoff = SimpleNamespace(delay=lambda attempt: 0.0)
        self.requests: list[tuple[int, FetchRequest]] = []
        self.answer: Answer = at_once_what_is_new
        self.invalidated: list[str] = []
        self.received = asyncio.Event()
        self.polling = False
        self._waiting: asyncio.Queue[FetchResponse | KafkaError] = asyncio.Queue()
        parts = tuple(PartitionInfo(number % nodes, 1) for number in range(size))
        self.snapshot = ClusterSnapshot(
            brokers={node: BrokerNode(node, "localhost", 9092) for node in range(nodes + 1)},
            topics={"t": TopicInfo("t", TOPIC_ID, parts)} if known else {},
            topic_names={TOPIC_ID: "t"},
            generation=1,
        )

    def invalidate(self, reason: str) -> None:
        self.invalidated.append(reason)

    async def version(self, request_type: type[FetchRequest], node: int, **_: Any) -> int:
        return request_type.versions.highest

    async def send(self, request: FetchRequest, node: int, **_: Any) -> FetchResponse:
        self.requests.append((node, request))
        self.received.set()
        await asyncio.sleep(0)
        at_once = self.answer(node, request)
        if at_once is not None:
            return at_once
        self.polling = True
        try:
            answer = await self._waiting.get()
        finally:
            self.polling = False
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def give(self, *parts: PartitionData, session_id: int = 1) -> None:
        """Respond to the waiting long poll."""
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(parts))
        self._waiting.put_nowait(FetchResponse(session_id=session_id, responses=[topic]))

    def refuse(self, code: ErrorCode) -> None:
        """Respond to it with a top-level error code."""
        self._waiting.put_nowait(FetchResponse(error_code=code))

    def fail(self, error: KafkaError) -> None:
        """Let it fail with ``error``."""
        self._waiting.put_nowait(error)

    async def request(self) -> FetchRequest:
        """Return the next request with a changed or forgotten partition."""
        while True:
            while not self.requests:
                self.received.clear()
                await self.received.wait()
            _, request = self.requests.pop(0)
            if request.topics or request.forgotten_topics_data:
                return request

    async def idle(self) -> None:
        """Wait until a request waits for records, and drop the requests before it."""
        while not self.polling:
            await asyncio.sleep(0)
        self.requests.clear()


async def settled() -> None:
    """Let the fetcher do all that it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def offsets_in(request: FetchRequest) -> dict[int, int]:
    """Partition → fetch offset."""
    return {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}


@asynccontextmanager
async def fetching(kafka: Kafka, size: int, **config: Any) -> AsyncIterator[tuple[Fetcher, Assignment]]:
    fetchers: list[Fetcher] = []

    def changed(cursors: Any) -> None:
        if fetchers:
            fetchers[0].changed(cursors)

    assignment = Assignment(Signals(changed, lambda: None, lambda: fetchers[0].room()))
    cluster: Any = kafka
    validator = PositionValidator(cluster, assignment, lambda cursor, offset, epoch: None)
    fetcher = Fetcher(cluster, assignment, FetchConfig(**config), lambda cursor, why: False, validator)
    fetchers.append(fetcher)
    assignment.add([TopicPartition("t", number) for number in range(size)], 0)
    for cursor in assignment.cursors.values():
        assignment.resolved(cursor, 5)
    task = asyncio.create_task(fetcher.run())
    try:
        yield fetcher, assignment
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each partition was examined."""
    counted: Counter[str] = Counter()

    def counting(owner: type, name: str) -> None:
        inner = getattr(owner, name)

        def call(*args: Any) -> Any:
            counted[name] += 1
            return inner(*args)

        monkeypatch.setattr(owner, name, call)

    counting(BrokerFetcher, "_wanted")
    counting(Fetcher, "_place")
    return counted


async def test_a_fetch_names_only_the_partitions_that_changed(work: Counter[str]) -> None:
    """However many partitions are unchanged."""
    size = 5 * MAX_CHANGES // 2
    kafka = Kafka(size)
    async with fetching(kafka, size) as (_, assignment):
        found: list[dict[int, int]] = []
        while sum(map(len, found)) < size:
            found.append(offsets_in(await kafka.request()))
        assert {number for partitions in found for number in partitions} == set(range(size))
        assert max(map(len, found)) <= MAX_CHANGES
        await kafka.idle()
        kafka.answer = lambda node, request: None
        work.clear()
        for offset in range(5, 25):
            kafka.give(PartitionData(partition_index=7, high_watermark=99, records=batch(offset)))
            assert offsets_in(await kafka.request()) == {7: offset + 1}
        assert work == {"_wanted": 20}
        assert assignment.get(TopicPartition("t", 7)).buffer.size == 20 * len(batch(0))


async def test_a_long_poll_starts_only_when_every_partition_was_requested() -> None:
    kafka = Kafka(2 * MAX_CHANGES)
    async with fetching(kafka, 2 * MAX_CHANGES):
        while not kafka.polling:
            await asyncio.sleep(0)
        counts = [len(offsets_in(request)) for _, request in kafka.requests]
        assert sum(counts) == 2 * MAX_CHANGES
        waits = [request.max_wait_ms for (_, request), new in zip(kafka.requests, counts, strict=True) if new]
        assert set(waits[:-1]) == {0}


async def test_a_partition_that_is_paused_or_removed_is_forgotten() -> None:
    kafka = Kafka(3)
    async with fetching(kafka, 3) as (_, assignment):
        await kafka.idle()
        assignment.pause([TopicPartition("t", 1)], True)
        assignment.remove([TopicPartition("t", 2)])
        assignment.seek(TopicPartition("t", 0), 50)
        kafka.give()
        request = await kafka.request()
        assert [(topic.topic, sorted(topic.partitions)) for topic in request.forgotten_topics_data] == [("t", [1, 2])]
        assert offsets_in(request) == {0: 50}
        await kafka.idle()
        assignment.pause([TopicPartition("t", 1)], False)
        kafka.give()
        assert offsets_in(await kafka.request()) == {1: 5}


@pytest.mark.parametrize("event", ["none", "moved", "removed"])
async def test_a_response_in_flight_is_kept_when_its_partition_is_paused(event: str) -> None:
    """Unless another broker leads by then, or the partition is not assigned any more."""
    kafka, paused = Kafka(2), TopicPartition("t", 0)
    async with fetching(kafka, 2) as (fetcher, assignment):
        await kafka.idle()
        cursor = assignment.cursors[paused]
        assignment.pause([paused], True)
        await settled()
        if event == "moved":
            kafka.snapshot = kafka.snapshot.with_leader("t", 0, leader=1, leader_epoch=2)
            fetcher.metadata_changed()
        elif event == "removed":
            assignment.remove([paused])
        await settled()
        kafka.give(PartitionData(partition_index=0, high_watermark=6, records=batch(5)))
        await settled()
        assert (cursor.fetch.offset == 6, bool(cursor.buffer)) == (event == "none",) * 2
        assert assignment.next_cursor() is None


async def test_records_fetched_before_a_seek_are_dropped() -> None:
    kafka = Kafka(1)
    async with fetching(kafka, 1) as (_, assignment):
        await kafka.idle()
        assignment.seek(TopicPartition("t", 0), 5)
        kafka.give(PartitionData(partition_index=0, records=batch(5)))
        assert offsets_in(await kafka.request()) == {0: 5}
        assert not assignment.get(TopicPartition("t", 0)).buffer


async def test_a_new_leader_is_fetched_from_once_the_metadata_has_it() -> None:
    kafka = Kafka(2, nodes=2)
    async with fetching(kafka, 2) as (fetcher, _):
        await kafka.idle()
        kafka.snapshot = kafka.snapshot.with_leader("t", 0, leader=1, leader_epoch=2)
        fetcher.metadata_changed()
        kafka.answer = lambda node, request: FetchResponse(session_id=node + 1)
        kafka.give()
        kafka.give(session_id=2)
        while not (moved := [node for node, request in kafka.requests if 0 in offsets_in(request)]):
            await asyncio.sleep(0)
        assert moved == [1]


async def test_after_a_lost_connection_a_full_fetch_is_sent() -> None:
    kafka = Kafka(2)
    async with fetching(kafka, 2):
        assert offsets_in(await kafka.request()) == {0: 5, 1: 5}
        await kafka.idle()
        kafka.fail(BrokerConnectionError("gone"))
        request = await kafka.request()
        assert (request.session_epoch, offsets_in(request)) == (0, {0: 5, 1: 5})
        assert kafka.invalidated == ["fetch: gone"]


async def test_an_unknown_fetch_session_is_replaced_at_once() -> None:
    kafka = Kafka(1)
    async with fetching(kafka, 1):
        await kafka.idle()
        kafka.refuse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        request = await kafka.request()
        assert (request.session_id, request.session_epoch, offsets_in(request)) == (0, 0, {0: 5})
        assert not kafka.invalidated


async def test_a_truncated_batch_is_fetched_alone_and_the_session_stays() -> None:
    """Brokers before KIP-74 truncate batches that are larger than the partition's limit."""
    kafka = Kafka(2)
    builder = BatchBuilder(max_bytes=1 << 20)
    builder.append(0, None, bytes(3000))
    whole = bytes(builder.close(base_offset=5))
    async with fetching(kafka, 2, max_partition_bytes=1000) as (_, assignment):
        await kafka.idle()
        kafka.answer = lambda node, request: None
        kafka.give(PartitionData(partition_index=0, records=whole[:1000]))
        alone = await kafka.request()
        assert (alone.session_id, alone.session_epoch, offsets_in(alone)) == (0, -1, {0: 5})
        assert [part.partition_max_bytes for topic in alone.topics for part in topic.partitions] == [len(whole)]
        kafka.give(PartitionData(partition_index=0, records=whole), session_id=0)
        cursor = assignment.get(TopicPartition("t", 0))
        while not cursor.buffer:
            await asyncio.sleep(0)
        assignment.seek(TopicPartition("t", 0), 7)
        request = await kafka.request()
        assert (request.session_id, offsets_in(request)) == (1, {0: 7})


async def test_a_follower_is_read_from_while_the_metadata_has_no_such_topic() -> None:
    kafka = Kafka(0, known=False)
    async with fetching(kafka, 1) as (fetcher, assignment):
        cursor = assignment.get(TopicPartition("t", 0))
        cursor.fetch.replica = (1, float("inf"))
        fetcher.changed([cursor])
        assert offsets_in(await kafka.request()) == {0: 5}


async def test_nothing_is_fetched_after_a_damaged_batch() -> None:
    kafka = Kafka(1)
    async with fetching(kafka, 1) as (_, assignment):
        await kafka.idle()
        damaged = bytearray(batch(6))
        damaged[16] = 9
        kafka.give(PartitionData(partition_index=0, records=batch(5) + bytes(damaged)))
        cursor: Cursor = assignment.get(TopicPartition("t", 0))
        while not cursor.buffer:
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert cursor.buffer.damaged
        assert not any(offsets_in(request) for _, request in kafka.requests)


async def test_a_seek_while_a_response_is_processed_drops_the_rest_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large responses are processed over several loop iterations."""

    async def pause(time_slice: TimeSlice) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(TimeSlice, "pause", pause)
    kafka = Kafka(1)
    async with fetching(kafka, 1) as (_, assignment):
        await kafka.idle()
        kafka.give(PartitionData(partition_index=0, records=b"".join(map(batch, range(5, 5 + 3 * MAX_BATCHES)))))
        cursor = assignment.get(TopicPartition("t", 0))
        while not cursor.buffer:
            await asyncio.sleep(0)
        assert len(cursor.buffer.chunks) < 3
        assignment.seek(TopicPartition("t", 0), 2)
        assert offsets_in(await kafka.request()) == {0: 2}
        assert not cursor.buffer
        assert cursor.position == 2
