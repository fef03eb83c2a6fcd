"""What the application raises never ends its own loop over records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from aiokproto import Consumer, Record
from aiokproto.application.calls import CallbackError
from aiokproto.consumer import DeadLetterTopic
from tests.simulation.environment import Environment
from tests.simulation.test_consumer_guards import run


def refuse(value: bytes) -> bytes:
    raise ValueError("not mine")


def end(*given: Any, **named: Any) -> Any:
    raise StopAsyncIteration


class Letters:
    """A producer of dead letters whose calls, or their deliveries, end an iteration."""

    def __init__(self, *, delivery: bool) -> None:
        self._delivery = delivery

    async def post_bytes(self, *given: Any, **named: Any) -> Awaitable[None]:
        async def delivered() -> None:
            end()

        return asyncio.ensure_future(delivered()) if self._delivery else end()


@pytest.mark.parametrize(
    "policy",
    [
        DeadLetterTopic(end, Letters(delivery=False)),
        DeadLetterTopic("d", Letters(delivery=False)),
        DeadLetterTopic("d", Letters(delivery=True)),
    ],
    ids=["topic", "post", "delivery"],
)
def test_a_dead_letter_that_raises_stop_async_iteration_does_not_end_a_loop_over_records(policy: Any) -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        with pytest.raises(CallbackError, match="StopAsyncIteration"):
            async for _ in consumer:
                pass

    run(program, value_deserializer=refuse, on_undecodable=policy)


@pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration])
def test_a_deserializer_that_raises_it_has_failed_on_the_record(end: type[Exception]) -> None:
    def decode(value: bytes) -> bytes:
        if value == b"bad":
            raise end
        return value

    async def program(environment: Environment, consumer: Consumer) -> None:
        for value in (b"1", b"bad", b"2"):
            environment.append(0, value)
        seen: list[Record[Any, Any]] = [await anext(consumer) for _ in range(2)]
        assert [record.value for record in seen] == [b"1", b"2"]

    run(program, records=0, value_deserializer=decode, on_undecodable="skip")
