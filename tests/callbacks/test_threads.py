"""Calls in the thread of an embedded cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from typing import Any

import pytest

from aiokproto.broker import Broker, ThreadedCluster
from tests.callbacks.cases import BugError, cancel_itself
from tests.timeouts import LONG_TIMEOUT


@pytest.fixture(scope="module")
def kafka() -> Iterator[ThreadedCluster]:
    with ThreadedCluster(Broker()) as cluster:
        yield cluster


async def cancels_itself() -> None:
    cancel_itself()
    await asyncio.sleep(0)


async def fails(error: BaseException) -> None:
    raise error


def fails_at_once(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize("function", [fails, fails_at_once])
@pytest.mark.parametrize("error", [BugError("a bug"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_what_a_call_raises_is_raised_where_it_was_made(
    kafka: ThreadedCluster, function: Any, error: BaseException
) -> None:
    """Also what ends the program, which is not the cluster's thread to end: the cluster answers the next call."""
    with pytest.raises(type(error)):
        kafka.call(function, error)
    assert kafka.call(lambda: 1) == 1


@pytest.mark.parametrize("function", [cancels_itself, lambda: fails(asyncio.CancelledError())])
def test_a_call_that_is_cancelled_is_cancelled_where_it_was_made(kafka: ThreadedCluster, function: Any) -> None:
    with pytest.raises(concurrent.futures.CancelledError):
        kafka.call(function)
    assert kafka.call(lambda: 1) == 1


def test_a_call_that_does_not_return_holds_up_no_other(kafka: ThreadedCluster) -> None:
    gate: list[asyncio.Event] = []

    async def hang() -> int:
        gate.append(asyncio.Event())
        await gate[0].wait()
        return 2

    with concurrent.futures.ThreadPoolExecutor() as threads:
        hanging = threads.submit(kafka.call, hang)
        while not gate:
            assert kafka.call(lambda: 1) == 1
        kafka.call(gate[0].set)
        assert hanging.result(LONG_TIMEOUT) == 2
