"""Deserializers that use the consumer which calls them: no record is lost, and none comes twice."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto import Consumer
from tests.simulation.environment import Environment
from tests.simulation.test_consumer_guards import run

HERE = [("t", 0), ("t", 1)]


async def read(consumer: Consumer[Any, Any], how: str) -> list[tuple[int, Any]]:
    if how == "async for":
        return [(record.partition, record.value) async for record in consumer.records(100)]
    least = 30 if how == "poll of many" else 1
    return [(record.partition, record.value) for record in await consumer.poll(100, 100, min_records=least)]


@pytest.mark.parametrize("how", ["async for", "poll", "poll of many"])
@pytest.mark.parametrize("call", ["poll", "anext", "pause"])
def test_a_deserializer_that_reads_or_pauses_its_consumer_neither_loses_nor_repeats_records(
    call: str, how: str
) -> None:
    called: list[object] = []

    async def program(environment: Environment, consumer: Consumer[Any, Any]) -> None:
        for number in range(20):
            for partition in range(2):
                environment.append(partition, b"%d" % number)
        seen: list[tuple[int, Any]] = []

        def use_the_consumer() -> None:
            if call == "pause":
                consumer.pause(*HERE)
                return
            coroutine = consumer.poll(0) if call == "poll" else consumer.__anext__()
            try:
                coroutine.send(None)
            except (RuntimeError, StopIteration) as error:
                called.append(error)
            finally:
                coroutine.close()

        consumers.append(use_the_consumer)
        for _ in range(40):
            seen += await read(consumer, how)
            consumer.resume(*HERE)
        assert sorted(seen) == sorted((partition, b"%d" % number) for partition in range(2) for number in range(20))
        assert len(called) == (call != "pause")
        assert not any(isinstance(error, StopIteration) for error in called)

    consumers: list[Any] = []

    def decode(value: bytes) -> bytes:
        if value == b"5" and consumers:
            consumers.pop()()
        return value

    run(program, partitions=2, records=0, value_deserializer=decode)
