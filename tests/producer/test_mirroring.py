"""Batches sent unchanged with `send_batch`: their bytes, their order, and their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthorizationError,
    ClientClosedError,
    CorruptRecordError,
    DeadlineError,
    InvalidRecordError,
    KafkaError,
    MessageTooLargeError,
    UnknownTopicError,
)
from aiokproto.producer import BatchDelivery
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.limits import BufferLimits
from aiokproto.records import BatchRecord, RecordBatch, decode, encode
from aiokproto.records.batch import HEADER
from aiokproto.records.patch import update_crc
from aiokproto.types import RecordMetadata, TopicPartition
from tests.producer.fake import FakeCluster, Make
from tests.producer.sticky import FreeSinks, lowest
from tests.producer.test_producer import Gate, settle


def stored(*values: bytes, base: int = 40, codec: str = "none") -> bytes:
    """A batch as a broker stores it when another producer wrote it in a transaction."""
    records = [BatchRecord(0, 1000 + number, None, value) for number, value in enumerate(values)]
    return encode(
        records,
        base_offset=base,
        compression=codec,
        producer_id=99,
        producer_epoch=3,
        base_sequence=12,
        is_transactional=True,
    )


def fetched(*batches: bytes) -> FetchedBatch:
    found = list(decode(b"".join(batches)))
    return FetchedBatch(TopicPartition("source", 1), found[0].base_offset, found[-1].next_offset, found)


def sent(fake: FakeCluster) -> list[RecordBatch]:
    return [
        RecordBatch(data.records)
        for _, request in fake.requests
        for topic in request.topic_data
        for data in topic.partition_data
        if data.records is not None
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
async def test_records_are_sent_unchanged_under_a_header_of_this_producer(
    make: Make, codec: str, idempotent: bool
) -> None:
    fake = FakeCluster(partitions=2)
    data = stored(b"a" * 500, b"b" * 500, codec=codec)
    async with make(fake, compression_type="gzip", enable_idempotence=idempotent) as producer:
        await producer.send("flights", b"before", partition=1)
        where = await producer.send_batch("flights", RecordBatch(data), partition=1)
        await producer.send("flights", b"after", partition=1)
    assert where == [RecordMetadata("flights", 1, 1, 1001)]
    assert fake.logs[1].values == [b"before", b"a" * 500, b"b" * 500, b"after"]
    batch = sent(fake)[1]
    batch.validate()
    assert batch.raw[HEADER.size :] == data[HEADER.size :]
    assert batch.compression.name.lower() == codec
    assert (batch.base_offset, batch.is_transactional) == (0, False)
    stamp = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    assert stamp == ((7, 0, 1) if idempotent else (-1, -1, -1))


async def test_all_batches_of_a_consumer_batch_are_in_flight_at_once(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.send("flights", b"0")
        gate = Gate(fake)
        delivery = await producer.post_batch(
            "flights", fetched(stored(b"1", b"2"), stored(b"3", base=42), stored(b"4", base=43)), partition=0
        )
        await settle()
        assert len(fake.requests) == 4
        assert not delivery.done()
        with pytest.raises(asyncio.InvalidStateError, match="not known yet"):
            delivery.result()
        gate.opened.set()
        places = await delivery
        assert [where.offset for where in places] == [1, 3, 4]
        assert delivery.done()
        assert await delivery == delivery.result() == places
        assert repr(delivery) == "<BatchDelivery done: 3 batches>"
    assert fake.logs[0].values == [b"0", b"1", b"2", b"3", b"4"]


async def test_order_is_kept_with_records_that_linger(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake, linger_ms=50_000) as producer:
        deliveries: list[Any] = [await producer.post("flights", b"1", partition=0)]
        deliveries.append(await producer.post_batch("flights", stored(b"2", b"3"), partition=0))
        deliveries.append(await producer.post("flights", b"4", partition=0))
        deliveries.append(await producer.post_batch("flights", stored(b"5"), partition=0))
        for delivery in deliveries:
            await delivery
    assert fake.logs[0].values == [b"1", b"2", b"3", b"4", b"5"]


async def test_a_batch_is_copied_and_not_held(make: Make) -> None:
    """Its bytes are a view of a whole fetch response."""
    fake = FakeCluster()
    async with make(fake) as producer:
        buffer = bytearray(stored(b"v"))
        (batch,) = decode(buffer)
        delivery = await producer.post_batch("flights", batch, partition=0)
        del batch
        buffer.clear()
        await delivery
    assert fake.logs[0].values == [b"v"]


async def test_retries_keep_the_sequence_number_and_the_records(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        fake.fail_next(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS)
        (where,) = await producer.send_batch("flights", stored(b"a", b"b", codec="lz4"), partition=0)
        assert where.offset == 0
        assert (await producer.send("flights", b"c")).offset == 2
    assert [(batch.base_sequence, batch.count) for batch in sent(fake)] == [(0, 2)] * 3 + [(2, 1)]
    assert fake.logs[0].values == [b"a", b"b", b"c"]


async def test_a_broker_that_forgot_the_producer_gets_a_new_epoch(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.send_batch("flights", stored(b"a", codec="gzip"), partition=0)
        fake.fail_next(ErrorCode.UNKNOWN_PRODUCER_ID)
        await producer.send_batch("flights", stored(b"b", codec="gzip"), partition=0)
    assert fake.logs[0].values == [b"a", b"b"]
    last = sent(fake)[-1]
    last.validate()
    assert (last.producer_epoch, last.base_sequence) == (1, 0)


async def test_sequence_numbers_count_the_records_of_a_batch(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.send_batch("flights", stored(*[b"x"] * 7), partition=0)
        await producer.send("flights", b"y")
    assert [batch.base_sequence for batch in sent(fake)] == [0, 7]


class RejectingLeader:
    """A leader that rejects some batches."""

    def __init__(self, fake: FakeCluster, verdict: Callable[[RecordBatch], ErrorCode]) -> None:
        self.fake = fake
        self.verdict = verdict
        fake.answer = self.answer

    async def answer(self, node: int, request: ProduceRequest) -> ProduceResponse:
        return self.fake.respond(request, lambda data: self._answer_partition(node, data))

    def _answer_partition(self, node: int, data: PartitionProduceData) -> PartitionProduceResponse:
        assert data.records is not None
        code = self.verdict(RecordBatch(data.records))
        if code is ErrorCode.NONE:
            return self.fake._store(node, data)
        return PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)


def too_large(batch: RecordBatch) -> ErrorCode:
    return ErrorCode.MESSAGE_TOO_LARGE if batch.count > 2 else ErrorCode.NONE


async def test_a_batch_too_large_for_the_topic_is_split_and_stays_compressed(make: Make) -> None:
    fake = FakeCluster()
    RejectingLeader(fake, too_large)
    values = [b"%d" % number * 100 for number in range(5)]
    async with make(fake, compression_type="zstd", compression_level=15) as producer:
        (where,) = await producer.send_batch("flights", stored(*values, codec="gzip"), partition=0)
        assert where == RecordMetadata("flights", 0, 0, 1004)
    assert fake.logs[0].values == values
    assert {batch.compression.name for batch in sent(fake)} == {"GZIP"}


def test_parts_of_a_compressed_batch_count_with_their_own_size() -> None:
    limits = BufferLimits(
        batch_size=1000, buffer_memory=1000, max_request_size=5000, linger=1.0, delivery_timeout=30.0, in_flight=5
    )
    accumulator = Accumulator(limits, sticky=lowest())
    topic = accumulator.update("flights", [1], 0.0)
    values = [b"x" * 500] * 4
    batch = accumulator.append_encoded(topic.queues[0], RecordBatch(stored(*values, codec="gzip")), 0.0)
    assert batch is not None
    assert accumulator.used == batch.reserved < 200
    accumulator.drain(0.0, FreeSinks())
    accumulator.split(batch)
    parts = list(accumulator.incomplete)
    assert accumulator.used == sum(part.reserved for part in parts) > 2000
    assert accumulator.append(topic, 0, 1, None, b"v", (), 0.0) is None, "the buffer is full, also for a smaller batch"
    for part in parts:
        accumulator.drain(0.0, FreeSinks())
        accumulator.complete(part, 0)
    assert (accumulator.used, batch.done) == (0, True)


async def test_a_batch_fails_if_one_part_of_it_fails(make: Make) -> None:
    def verdict(batch: RecordBatch) -> ErrorCode:
        has_last = any(record.value == b"3" for record in batch)
        return too_large(batch) or (ErrorCode.TOPIC_AUTHORIZATION_FAILED if has_last else ErrorCode.NONE)

    fake = FakeCluster()
    RejectingLeader(fake, verdict)
    async with make(fake) as producer:
        with pytest.raises(AuthorizationError):
            await producer.send_batch("flights", stored(b"1", b"2", b"3"), partition=0)
    assert fake.logs[0].values == [b"1"]


async def test_a_batch_too_large_for_the_topic_that_cannot_be_split_fails_alone(make: Make) -> None:
    """The records are damaged, which is noticed only when the batch is split."""
    fake = FakeCluster()
    damaged = bytearray(stored(b"1", b"2", b"3", codec="gzip"))
    damaged[HEADER.size :] = bytes(len(damaged) - HEADER.size)
    update_crc(damaged)
    async with make(fake) as producer:
        RejectingLeader(fake, too_large)
        with pytest.raises(MessageTooLargeError) as caught:
            await producer.send_batch("flights", damaged, partition=0)
        assert isinstance(caught.value.__cause__, CorruptRecordError)
        await producer.send("flights", b"fine")
    assert fake.logs[0].values == [b"fine"]


@pytest.mark.parametrize(
    ("options", "option"),
    [({"max_request_size": 2000}, "max_request_size is 2000"), ({"buffer_memory": 1000}, "buffer_memory is 1000")],
)
async def test_a_batch_larger_than_the_limits_is_refused_with_all_batches_of_the_call(
    make: Make, options: dict[str, int], option: str
) -> None:
    fake = FakeCluster()
    large = stored(b"x" * 3000, base=41)
    async with make(fake, **options) as producer:
        with pytest.raises(MessageTooLargeError, match=f"the record batch takes {len(large)} bytes, {option}"):
            await producer.send_batch("flights", fetched(stored(b"1"), large), partition=0)
        await producer.flush()
    assert fake.requests == []


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ({"partition": 3}, InvalidRecordError, "partition 3 does not exist: topic"),
        ({"partition": -1}, InvalidRecordError, "partition -1"),
        ({"topic": "unknown"}, UnknownTopicError, "unknown"),
        ({"batch": b"text"}, CorruptRecordError, "not one whole"),
    ],
)
async def test_the_error_says_why_a_batch_cannot_be_sent(
    make: Make, call: dict[str, Any], error: type[KafkaError], text: str
) -> None:
    fake = FakeCluster(partitions=3)
    async with make(fake) as producer:
        given: dict[str, Any] = {"topic": "flights", "batch": stored(b"v"), "partition": 0, **call}
        topic = given.pop("topic")
        batch = given.pop("batch")
        for method in (producer.send_batch, producer.post_batch):
            with pytest.raises(error, match=text):
                await method(topic, batch, **given)
    assert fake.requests == []


async def test_batches_wait_for_buffer_memory_in_order(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    first, second = stored(b"1" * 1500), stored(b"2" * 1500)
    async with make(fake, buffer_memory=2000, batch_size=500) as producer:
        await producer.post_batch("flights", first, partition=0)
        waiting = asyncio.ensure_future(producer.post_batch("flights", second, partition=0))
        await settle()
        small = asyncio.ensure_future(producer.post("flights", b"3"))
        await settle()
        assert not waiting.done()
        assert not small.done(), "there is buffer memory for it, but an earlier call waits"
        gate.opened.set()
        await (await waiting)
        await (await small)
    assert fake.logs[0].values == [b"1" * 1500, b"2" * 1500, b"3"]


async def test_lingering_batches_are_sent_to_free_buffer_memory(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake, buffer_memory=2000, linger_ms=110_000) as producer:
        await producer.post("flights", b"1" * 1000, partition=0)
        await producer.send_batch("flights", stored(b"2" * 1500), partition=0)
    assert fake.logs[0].values == [b"1" * 1000, b"2" * 1500]


async def test_a_task_that_never_waits_lets_others_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokproto.producer.buffer.MAX_LOOP_HOLD", -1)
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.partitions_for("flights")
        ran: list[bool] = []
        asyncio.get_running_loop().call_soon(ran.append, True)
        await producer.post_batch("flights", stored(b"v"), partition=0)
        assert ran


async def test_buffer_memory_not_free_in_time_is_an_error(make: Make) -> None:
    fake = FakeCluster()
    Gate(fake)
    async with make(fake, buffer_memory=2000, max_block_ms=0) as producer:
        await producer.partitions_for("flights")
        await producer.post_batch("flights", stored(b"x" * 1500), partition=0)
        with pytest.raises(DeadlineError, match="no memory free within max_block_ms=0"):
            await producer.post_batch("flights", stored(b"x" * 1500), partition=0)


async def test_a_batch_cancelled_while_it_waits_for_buffer_memory_is_never_sent(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake, buffer_memory=2000) as producer:
        await producer.partitions_for("flights")
        waiting = asyncio.ensure_future(
            producer.send_batch("flights", fetched(stored(b"1" * 1500), stored(b"2" * 1500, base=41)), partition=0)
        )
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.opened.set()
        await producer.flush()
    assert fake.logs[0].values == [b"1" * 1500]


async def test_close_fails_calls_that_wait_for_buffer_memory(make: Make) -> None:
    fake = FakeCluster()
    Gate(fake)
    async with make(fake, buffer_memory=2000) as producer:
        await producer.partitions_for("flights")
        delivery = await producer.post_batch("flights", stored(b"1" * 1500), partition=0)
        waiting = asyncio.ensure_future(producer.post_batch("flights", stored(b"2" * 1500), partition=0))
        await settle()
        with pytest.raises(DeadlineError):
            await producer.close(timeout_ms=0)
        with pytest.raises(ClientClosedError):
            await waiting
        with pytest.raises(ClientClosedError):
            await delivery


async def test_an_unobserved_failure_is_counted_in_records(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        fake.fail_next(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        await producer.post_batch("flights", stored(b"1", b"2"), partition=0)
        await producer.flush()
        assert producer.unobserved_failures == 2
    assert "failed to deliver 2 records for flights-0; no task awaited them" in caplog.text


async def test_with_acks_0_no_offset_is_known(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake, acks=0) as producer:
        (where,) = await producer.send_batch("flights", stored(b"1"), partition=0)
        assert where.offset == -1


def test_an_empty_list_of_batches_is_delivered() -> None:
    delivery = BatchDelivery([])
    assert delivery.done()
    assert delivery.result() == []
