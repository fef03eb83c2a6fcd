"""Requests to one broker: large batches are compressed in threads while others are sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from aiokproto.errors import (
    DeadlineError,
    KafkaError,
)
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.sink import MIN_BYTES
from tests.net.waiting import until
from tests.producer.fake import FakeCluster, Make, batches, grow_old
from tests.timeouts import LONG_TIMEOUT


async def test_large_batches_are_compressed_in_threads_and_stay_in_order(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Batches fill up to their size limit, even if that takes long.
    monkeypatch.setattr("aiokproto.producer.buffer.MAX_LOOP_HOLD", float("inf"))
    fake = FakeCluster()
    values = [b"%06d" % number * 20 for number in range(3000)]
    async with make(fake, compression_type="gzip", linger_ms=2) as producer:
        await producer.send_many("flights", values)
    assert fake.logs[0].values == values
    assert max(batch.count for batch in batches(fake)) > 500


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(ProducerBatch, "seal", lambda batch: made.seal(batch))
    yield made
    made.open.set()


class Gate:
    """Blocks the threads that compress batches until it's opened."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self._original = ProducerBatch.seal

    def seal(self, batch: ProducerBatch) -> bytearray:
        if threading.current_thread() is not threading.main_thread():
            self.reached.set()
            self.open.wait(LONG_TIMEOUT)
        return self._original(batch)


BIG = bytes(2 * MIN_BYTES)


async def test_nothing_overtakes_a_batch_of_its_partition_that_is_being_compressed(make: Make, gate: Gate) -> None:
    fake = FakeCluster()
    async with make(fake, compression_type="gzip", batch_size=0) as producer:
        await producer.send("flights", b"first")
        big = await producer.post("flights", BIG)
        await until(gate.reached.is_set)
        small = await producer.post("flights", b"small")
        try:
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(fake.requests) == 1
        finally:
            gate.open.set()
        assert [(await delivery).offset for delivery in (big, small)] == [1, 2]
    assert [batch.base_sequence for batch in batches(fake)] == [0, 1, 2]


async def test_other_partitions_and_brokers_do_not_wait_for_a_batch_that_is_being_compressed(
    make: Make, gate: Gate
) -> None:
    fake = FakeCluster(partitions=3, nodes=2)
    async with make(fake, compression_type="gzip", batch_size=0) as producer:
        for partition in range(3):
            await producer.send("flights", b"first", partition=partition)
        big = await producer.post("flights", BIG, partition=0)
        await until(gate.reached.is_set)
        # Partition 1 is on the other broker, partition 2 on the same one.
        await producer.send("flights", b"small", partition=1)
        await producer.send("flights", b"small", partition=2)
        assert not big.done()
        gate.open.set()
        assert (await big).offset == 1


async def test_a_small_batch_does_not_wait_for_a_large_one_that_became_ready_with_it(make: Make, gate: Gate) -> None:
    fake = FakeCluster(partitions=2)
    async with make(fake, compression_type="gzip", linger_ms=1) as producer:
        for partition in range(2):
            await producer.send("flights", b"first", partition=partition)
        big = await producer.post("flights", BIG, partition=0)
        await producer.send("flights", b"small", partition=1)
        assert not big.done()
        gate.open.set()
        assert (await big).offset == 1


async def test_a_batch_expires_while_it_is_compressed_and_is_not_sent(make: Make, gate: Gate) -> None:
    fake = FakeCluster()
    async with make(fake, compression_type="gzip", batch_size=0) as producer:
        await producer.send("flights", b"first")
        big = await producer.post("flights", BIG)
        await until(gate.reached.is_set)
        grow_old(producer)
        with pytest.raises(DeadlineError, match=r"1 attempt, last: it is being compressed"):
            await big
        gate.open.set()
        assert (await producer.send("flights", b"next")).offset == 1
    assert fake.logs[0].values == [b"first", b"next"]


async def test_batches_are_compressed_although_the_default_executor_is_full(make: Make) -> None:
    fake = FakeCluster()
    busy = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    working = asyncio.get_running_loop().run_in_executor(None, busy.wait, LONG_TIMEOUT)
    try:
        async with make(fake, compression_type="gzip") as producer:
            assert (await producer.send("flights", BIG)).offset == 0
    finally:
        busy.set()
        await working
        await asyncio.get_running_loop().shutdown_default_executor()


async def test_a_batch_that_cannot_be_compressed_fails_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster()

    def no_memory(batch: ProducerBatch) -> bytearray:
        raise MemoryError

    async with make(fake, compression_type="gzip", batch_size=0) as producer:
        await producer.send("flights", b"first")
        with monkeypatch.context() as patch:
            patch.setattr(ProducerBatch, "seal", no_memory)
            with pytest.raises(KafkaError, match="flights-0 cannot be compressed: MemoryError") as raised:
                await producer.send("flights", BIG)
        assert isinstance(raised.value.__cause__, MemoryError)
        assert (await producer.send("flights", b"next")).offset == 1
