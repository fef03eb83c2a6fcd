"""poll() waits for as many records as requested, and loses none when it is interrupted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Consumer, Record
from aiokproto.errors import ConfigurationError, RecordDeserializationError
from aiokproto.records import BatchRecord, encode
from aiokproto.types import TopicPartition
from tests.simulation.environment import Environment
from tests.simulation.test_consumer_guards import run

WHERE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


async def later(value: bytes) -> bytes:
    """A deserializer that suspends."""
    await asyncio.sleep(0.001)
    return value


DESERIALIZERS = [None, bytes, later]


def places(records: list[Record[Any, Any]]) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


async def append_each(environment: Environment, pause: float, count: int, partitions: int = 1) -> None:
    for number in range(count):
        await asyncio.sleep(pause)
        environment.append(number % partitions, b"x")


def append_one(environment: Environment, offset: int, *, damaged: bool) -> None:
    data = bytearray(encode([BatchRecord(offset, 0, None, b"x")]))
    # The checksum covers this byte.
    data[-1] ^= damaged
    environment.cluster._running.state.partition("t", 0).append(bytes(data), 0)


@pytest.mark.parametrize("deserializer", DESERIALIZERS)
def test_poll_returns_once_there_are_min_records_of_all_partitions(deserializer: Any) -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        time = asyncio.get_running_loop().time
        since = time()
        writing = asyncio.create_task(append_each(environment, 1, 10, partitions=2))
        records = await consumer.poll(60_000, 100, min_records=10)
        assert places(records) == [(part, offset) for part in range(2) for offset in range(5)]
        assert 10 <= time() - since < 12
        assert await consumer.position(WHERE) == await consumer.position(OTHER) == 5
        await writing

    run(program, partitions=2, records=0, value_deserializer=deserializer)


@pytest.mark.parametrize("deserializer", DESERIALIZERS)
def test_poll_returns_what_there_is_after_its_timeout(deserializer: Any) -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        loop = asyncio.get_running_loop()
        since = loop.time()
        records = await consumer.poll(5000, 100, min_records=100)
        assert places(records) == [(0, offset) for offset in range(20)]
        assert 5 <= loop.time() - since < 5.1

    run(program, partitions=2, value_deserializer=deserializer)


@pytest.mark.parametrize("deserializer", DESERIALIZERS)
def test_poll_returns_at_most_max_records_and_leaves_the_others_to_the_next_call(deserializer: Any) -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        seen: list[tuple[int, int]] = []
        for _ in range(4):
            some = await consumer.poll(5000, 5, min_records=5)
            assert len(some) == 5
            seen += places(some)
        assert seen == [(0, offset) for offset in range(20)]

    run(program, value_deserializer=deserializer)


@pytest.mark.parametrize("reading", ["poll", "anext", "batches"])
@pytest.mark.parametrize("deserializer", DESERIALIZERS)
def test_a_cancelled_poll_leaves_what_it_has_collected_to_any_other_read(deserializer: Any, reading: str) -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.poll(60_000, min_records=100), 3)
            assert await consumer.position(WHERE) == 0
        seen: list[int] = []
        while len(seen) < 20:
            if reading == "poll":
                seen += [record.offset for record in await consumer.poll(0, 7)]
            elif reading == "anext":
                seen.append((await anext(consumer)).offset)
            else:
                seen += [record.offset for record in await anext(consumer.batches())]
        assert seen == list(range(20))

    run(program, value_deserializer=deserializer)


def test_batches_continues_after_what_poll_has_returned_of_several_batches() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        assert len(await consumer.poll(5000, 7, min_records=7)) == 7
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.poll(60_000, min_records=100), 3)
        batch = await anext(consumer.batches())
        assert [record.offset for record in batch] == list(range(7, 20))
        assert batch.record_batches[0].base_offset == 7

    run(program)


def test_poll_returns_nothing_of_a_partition_that_is_paused_or_sought_meanwhile() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        environment.append(1, b"x")
        polling = asyncio.create_task(consumer.poll(5000, 100, min_records=100))
        await asyncio.sleep(1)
        consumer.pause(OTHER)
        consumer.seek(WHERE, 15)
        assert places(await polling) == [(0, offset) for offset in range(15, 20)]
        consumer.resume(OTHER)
        assert places(await consumer.poll(5000)) == [(1, 0)]

    run(program, partitions=2)


def test_poll_returns_nothing_of_a_partition_that_is_taken_away_while_it_collects() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        environment.append(1, b"x")
        polling = asyncio.create_task(consumer.poll(5000, 100, min_records=100))
        await asyncio.sleep(1)
        consumer.assign(OTHER)
        assert places(await polling) == [(1, 0)]

    run(program, partitions=2)


def test_a_partition_is_collected_from_beyond_the_fetch_buffer() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        assert len(await consumer.poll(60_000, 200, min_records=200)) == 200

    run(program, records=200, size=1000, fetch_buffer_bytes=20_000, max_partition_fetch_bytes=10_000)


@pytest.mark.parametrize("policy", ["raise", "skip", "return"])
@pytest.mark.parametrize("suspends", [False, True])
def test_records_before_one_that_cannot_be_decoded_are_returned_first(suspends: bool, policy: Any) -> None:
    def decode(value: bytes) -> int:
        return int(value)

    async def decode_later(value: bytes) -> int:
        await asyncio.sleep(0.001)
        return int(value)

    async def program(environment: Environment, consumer: Consumer) -> None:
        for value in (b"1", b"2", b"bad", b"4"):
            environment.append(0, value)
        seen: list[Any] = []
        while len(seen) < 4:
            try:
                records = await consumer.poll(1000, 10, min_records=4)
                seen += [record.value if record.error is None else "bad" for record in records]
            except RecordDeserializationError as error:
                seen.append((error.record.raw_value or b"").decode())
            if policy == "skip" and 4 in seen:
                break
        assert seen == ([1, 2, 4] if policy == "skip" else [1, 2, "bad", 4])

    run(program, records=0, value_deserializer=decode_later if suspends else decode, on_undecodable=policy)


@pytest.mark.parametrize("suspends", [False, True])
def test_poll_collects_min_records_beyond_those_that_are_skipped(suspends: bool) -> None:
    def decode(value: bytes) -> int:
        return int(value)

    async def decode_later(value: bytes) -> int:
        await asyncio.sleep(0.001)
        return int(value)

    async def program(environment: Environment, consumer: Consumer[Any, Any]) -> None:
        for partition in range(2):
            for value in (b"bad", b"1", b"bad", b"bad", b"2"):
                environment.append(partition, value)
        polling = asyncio.create_task(consumer.poll(60_000, 10, min_records=7))
        await asyncio.sleep(1)
        assert not polling.done()
        for value in (b"bad", b"3", b"4", b"5"):
            environment.append(0, value)
        seen = [(record.partition, record.value) for record in await polling]
        assert sorted(seen) == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 1), (1, 2)]
        assert consumer.undecodable == 7
        assert await consumer.position(WHERE) == 9

    run(
        program,
        partitions=2,
        records=0,
        value_deserializer=decode_later if suspends else decode,
        on_undecodable="skip",
    )


@pytest.mark.parametrize("deserializer", DESERIALIZERS)
@pytest.mark.parametrize("damaged", [{0}, {7}, {19}, {0, 1, 9, 10, 19}])
def test_poll_collects_min_records_beyond_damaged_batches_that_are_skipped(
    damaged: set[int], deserializer: Any
) -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        for number in range(20):
            append_one(environment, number, damaged=number in damaged)
        polling = asyncio.create_task(consumer.poll(60_000, 100, min_records=21 - len(damaged)))
        await asyncio.sleep(2)
        assert not polling.done()
        append_one(environment, 20, damaged=False)
        assert [record.offset for record in await polling] == [each for each in range(21) if each not in damaged]
        assert consumer.undecodable == len(damaged)

    run(program, records=0, value_deserializer=deserializer, on_undecodable="skip")


def test_min_records_beyond_max_records_are_refused() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        with pytest.raises(ConfigurationError, match="min_records=8"):
            await consumer.poll(0, 7, min_records=8)

    run(program)
