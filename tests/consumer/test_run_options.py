"""The arguments of `Consumer.run`: what could only go wrong later is refused at once."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.consumer import Retry
from aiokproto.errors import ClientClosedError, ConfigurationError


async def later(_: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"order": later}, "order=.* a coroutine function is not awaited here"),
        ({"order": "keys"}, "order='keys'"),
        ({"order": "key", "batch": 3}, "a batch has records of many keys"),
        ({"batch_wait_ms": 5}, "batch_wait_ms is how long a batch waits"),
        ({"batch": 3, "batch_wait_ms": -1}, "batch_wait_ms"),
        ({"concurrency": 0}, "concurrency"),
        ({"retry": 3}, "retry=3: expected Retry"),
        ({"dead_letter": "topic"}, "dead_letter='topic': expected a DeadLetterTopic"),
        ({"handler_timeout_ms": 0}, "handler_timeout_ms"),
    ],
)
async def test_arguments_that_cannot_work_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        await Consumer("t", bootstrap_servers="localhost:1").run(later, **options)


def _plain(record: object) -> None:
    raise AssertionError("it is called")


async def _generates(record: object) -> Any:
    yield record


class _Method:
    def handle(self, record: object) -> None:
        raise AssertionError("it is called")


@pytest.mark.parametrize("handler", [_plain, _generates, _Method().handle])
async def test_a_handler_that_returns_nothing_to_await_is_refused_without_a_call(handler: Any) -> None:
    with pytest.raises(ConfigurationError, match="it is no coroutine function: define it with async def"):
        await Consumer("t", bootstrap_servers="localhost:1").run(handler)


async def test_a_decorated_coroutine_function_is_a_handler() -> None:
    @wraps(later)
    def decorated(record: object) -> Any:
        return later(record)

    with pytest.raises(ClientClosedError, match="not started"):
        await Consumer("t", bootstrap_servers="localhost:1").run(decorated)


@pytest.mark.parametrize("on", [later, int, (ValueError, KeyboardInterrupt), 3])
def test_what_cannot_decide_about_a_retry_is_refused(on: Any) -> None:
    with pytest.raises(ConfigurationError, match="Retry"):
        Retry(on=on)
