"""Errors of the application's own classes, derived from the library's."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.consumer import DeadLetterTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, KafkaError, PartialResponseError, copied, error_for
from tests.simulation.environment import Environment
from tests.simulation.test_consumer_guards import run


class DownError(BrokerConnectionError):
    """It cannot be made again from its ``args``."""

    def __init__(self, *, place: str) -> None:
        super().__init__(f"{place} is down")


class Letters:
    """A producer of dead letters that fails."""

    async def post_bytes(self, *given: Any, **named: Any) -> Awaitable[None]:
        raise DownError(place="the archive")


def refuse(value: bytes) -> bytes:
    raise ValueError("not mine")


@pytest.mark.parametrize(
    "error",
    [
        DownError(place="here"),
        BrokerConnectionError("here is down"),
        error_for(ErrorCode.NOT_COORDINATOR, "here", "is down"),
        PartialResponseError("here is down", b"the rest", ()),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copied_error_has_all_that_the_error_has(error: KafkaError) -> None:
    again = copied(error)
    assert again is not error
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert again.consequence is error.consequence
    assert again.__cause__ is error


def test_a_dead_letter_that_fails_with_an_error_of_the_application_raises_it() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        with pytest.raises(DownError, match=r"the dead letter of t-0@0 .*: the archive is down"):
            await anext(consumer)

    run(program, value_deserializer=refuse, on_undecodable=DeadLetterTopic("d", Letters()))
