"""Brokers before 0.10.1 (KIP-74) truncate records at the requested size, even the first message of a partition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.codec.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from aiokproto.errors import CorruptRecordError, MessageTooLargeError
from aiokproto.fetched.chunk import chunks
from aiokproto.records import BatchRecord, decode, encode
from aiokproto.types import TopicPartition
from tests.cluster.fake import brokers
from tests.net.peer import HangUp, Peer, serves

AT = TopicPartition("t", 0)
OLD = serves(Metadata=(0, 1), Fetch=(0, 2), ListOffsets=(0, 0))
LIMIT = 1 << 16


def stored(values: Sequence[bytes], base: int = 0, codec: str = "none") -> bytes:
    return encode([BatchRecord(0, 1, None, value) for value in values], magic=1, compression=codec, base_offset=base)


class OldLog:
    """Partitions of message sets, from which a Fetch gets exactly the requested number of bytes, minus ``less``."""

    def __init__(self, *partitions: bytes, less: int = 0) -> None:
        self._partitions = partitions
        self._less = less

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=[
                        self._read(partition.partition, partition.fetch_offset, partition.partition_max_bytes)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _read(self, partition: int, offset: int, limit: int) -> PartitionData:
        log = self._partitions[partition]
        start = next((batch.position for batch in decode(log) if batch.next_offset > offset), len(log))
        records = log[start : start + limit - self._less]
        return PartitionData(partition_index=partition, error_code=0, high_watermark=99, records=records)


@asynccontextmanager
async def reading(log: OldLog, partitions: int = 1, **options: Any) -> AsyncIterator[tuple[Consumer, Peer]]:
    """A consumer of all partitions from offset 0, and the broker it reads from."""
    async with brokers(more={FetchRequest: log.fetch}) as (fake, (broker,)):
        broker.answers[18] = OLD
        fake.leaders = {"t": [(1, 0)] * partitions}
        consumer = Consumer(bootstrap_servers=broker.address, fetch_max_wait_ms=0, **options)
        consumer.assign(*(("t", number) for number in range(partitions)))
        for number in range(partitions):
            consumer.seek(("t", number), 0)
        async with consumer:
            yield consumer, broker


def fetches(broker: Peer) -> list[dict[int, int]]:
    """Partition → requested bytes, for each Fetch."""
    return [
        {
            partition.partition: partition.partition_max_bytes
            for topic in request.topics
            for partition in topic.partitions
        }
        for request, _ in broker.requests
        if isinstance(request, FetchRequest)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip"])
async def test_a_message_larger_than_the_fetch_size_is_fetched_whole(codec: str) -> None:
    values = [b"small", bytes(range(256)) * 30, b"last"]
    log = b"".join(stored([value], offset, codec) for offset, value in enumerate(values))
    sizes = [batch.size_in_bytes for batch in decode(log)]
    async with reading(OldLog(log), max_partition_fetch_bytes=150) as (consumer, broker):
        found = [await anext(consumer) for _ in values]
        assert [(record.offset, record.value) for record in found] == list(enumerate(values))
        sizes_requested = [limits[0] for limits in fetches(broker)]
    assert max(sizes) > 150
    # The request has the message's own size for the message, and the usual size before and after it.
    assert sizes_requested[:4] == [150, 150, max(sizes), 150]


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_a_truncated_message_is_not_damaged_after_a_lost_connection(lost: int) -> None:
    log = stored([bytes(500)])

    class Unsteady(OldLog):
        fetch_count = 0

        def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
            self.fetch_count += 1
            if self.fetch_count == lost:
                raise HangUp
            return super().fetch(request, version)

    async with reading(Unsteady(log), max_partition_fetch_bytes=100) as (consumer, _):
        assert (await anext(consumer)).value == bytes(500)


async def test_a_fetch_shorter_than_the_header_is_extended_to_read_the_size_first() -> None:
    log = stored([b"a message"])
    async with reading(OldLog(log), max_partition_fetch_bytes=5) as (consumer, broker):
        assert (await anext(consumer)).value == b"a message"
        assert [limits[0] for limits in fetches(broker)][:3] == [5, 12, len(log)]


async def test_oversized_messages_are_fetched_one_at_a_time() -> None:
    """Together with others, the response could exceed the maximum size."""
    logs = [stored([b"%d" % number * 50_000]) for number in range(3)]
    async with reading(OldLog(*logs), 3, max_partition_fetch_bytes=100, max_response_size=LIMIT) as (consumer, broker):
        found = {(await anext(consumer)).partition for _ in logs}
        larger = [limits for limits in fetches(broker) if max(limits.values()) > 100]
    assert found == {0, 1, 2}
    assert sorted(larger, key=min) == [{number: len(log)} for number, log in enumerate(logs)]


async def test_a_message_larger_than_any_response_is_an_error_after_those_before_it() -> None:
    log = stored([b"small"]) + stored([bytes(LIMIT)], 1) + stored([b"last"], 2)
    async with reading(OldLog(log), max_partition_fetch_bytes=100, max_response_size=LIMIT) as (consumer, broker):
        assert (await anext(consumer)).offset == 0
        for _ in range(2):
            with pytest.raises(MessageTooLargeError, match=r"t-0 at offset 1: .*65570 bytes.*max_response_size=65536"):
                await anext(consumer)
        consumer.seek(AT, 2)
        assert (await anext(consumer)).value == b"last"
        assert {limits[0] for limits in fetches(broker)} == {100}


async def test_a_message_truncated_below_its_requested_size_is_damaged() -> None:
    """Otherwise the same request would be repeated for ever."""
    log = stored([bytes(500)])
    async with reading(OldLog(log, less=1), max_partition_fetch_bytes=100) as (consumer, broker):
        with pytest.raises(CorruptRecordError, match=r"t-0 at offset 0: .*not one whole"):
            await anext(consumer)
        assert [limits[0] for limits in fetches(broker)] == [100, len(log)]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_chunk_reports_the_fetch_size_it_needs(magic: int) -> None:
    first, second = (encode([BatchRecord(0, 1, None, bytes(90))], magic=magic, base_offset=at) for at in (0, 1))
    data = memoryview(first + second)
    for position, whole in ((0, len(first)), (1, len(data))):
        for size in range(1, len(data)):
            [chunk] = chunks(AT, position, data[:size], [])
            if size >= whole:
                assert (chunk.wanted_size, chunk.damage) == (0, None)
            elif size >= whole - len(second) + 12:
                assert chunk.wanted_size == whole
            else:
                assert size < chunk.wanted_size < whole
