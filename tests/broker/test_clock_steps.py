"""An event loop may call a timer up to one step of its clock early. The broker must not poll until the time is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.handlers import fetch, share_fetch
from aiokproto.broker.server.listener import Listener
from aiokproto.broker.transactions.coordinator import TransactionCoordinator
from tests.behaviour.share_harness import BROKER_CONFIG, share_harness
from tests.broker.test_transactions import begin, describe
from tests.broker.wire import connect, fetch_request
from tests.clusters import EmbeddedCluster
from tests.loops import CoarseLoop


async def busy() -> None:
    """Keep the loop busy, so that it never sleeps until a timer is due."""
    while True:
        await asyncio.sleep(0)


async def beside(coroutine: Coroutine[Any, Any, None]) -> None:
    others = asyncio.ensure_future(busy())
    await coroutine
    others.cancel()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    loop = CoarseLoop()
    try:
        loop.run_until_complete(beside(coroutine))
    finally:
        loop.close()


def times_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[float]:
    """Return when a function was called, by the loop's clock, one call after the other."""
    times: list[float] = []
    function: Callable[..., Any] = getattr(owner, name)

    def noted(*arguments: Any) -> Any:
        times.append(asyncio.get_running_loop().time())
        return function(*arguments)

    monkeypatch.setattr(owner, name, noted)
    return times


def test_a_fetch_checks_once_more_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait() -> None:
        async with Broker() as broker, connect(broker) as wire:
            await broker.create_topic("t")
            await wire.ask(fetch_request("t", max_wait_ms=40), 11)

    looked = times_of(monkeypatch, fetch, "_find_records")
    run(wait())
    assert len(looked) == 2


def test_a_share_fetch_checks_once_more_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait() -> None:
        async with (
            Broker(config=BROKER_CONFIG) as broker,
            share_harness(EmbeddedCluster(broker, 1), "t") as at,
            at.member() as member,
        ):
            looked.clear()
            await member.fetch(wait=40)

    looked = times_of(monkeypatch, share_fetch, "_find_records")
    run(wait())
    assert len(looked) == 2


def test_idle_connections_are_checked_once_per_clock_step_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def be_silent() -> None:
        async with Broker(config={"connections.max.idle.ms": 40}) as broker, connect(broker) as wire:
            assert await wire.closed()

    looked = times_of(monkeypatch, Listener, "_close_idle")
    run(be_silent())
    assert looked
    assert len(looked) == len(set(looked))


def test_an_overdue_transaction_is_checked_once_per_clock_step_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def be_late() -> None:
        async with Broker() as broker, connect(broker) as wire:
            await broker.create_topic("t")
            await begin(wire, 0, timeout_ms=40)
            while (await describe(wire)).transaction_state != "CompleteAbort":
                pass

    looked = times_of(monkeypatch, TransactionCoordinator, "_time_out")
    run(be_late())
    assert looked
    assert len(looked) == len(set(looked))
