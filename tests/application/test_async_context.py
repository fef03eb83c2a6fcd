"""What leaving the block of a client raises; and a plain ``with`` names ``async with``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

import aiokproto
from aiokproto import Broker, Cluster, Consumer, ExactlyOnce, Producer, ShareConsumer
from aiokproto.application.async_context import AsyncContext
from aiokproto.client import Client
from aiokproto.cluster import ClusterClient
from aiokproto.errors import DeadlineError
from aiokproto.producer import Transaction
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition

SERVERS = "localhost:9092"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Producer(bootstrap_servers=SERVERS),
        lambda: Consumer(bootstrap_servers=SERVERS),
        lambda: Client(bootstrap_servers=SERVERS),
        Cluster,
        Broker,
    ],
)
def test_with_names_async_with(make: Callable[[], AsyncContext]) -> None:
    made = make()
    with pytest.raises(TypeError, match=f"use `async with {type(made).__name__}"), made:
        pass


class Block(AsyncContext):
    """Closing raises what it was made with."""

    def __init__(self, closing: BaseException) -> None:
        self.closing = closing

    async def __aenter__(self) -> None:
        pass

    async def _leave(self, error: BaseException | None) -> None:
        raise self.closing


@pytest.mark.parametrize("own", [ValueError("mine"), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("closing", [DeadlineError("late"), RuntimeError("a callback")])
async def test_the_blocks_exception_is_raised_and_the_one_of_closing_is_logged(
    own: BaseException, closing: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(own)) as caught:
        async with Block(closing):
            raise own
    assert caught.value is own
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("aiokproto", logging.ERROR)
    expected = f"Block: its block was left by {type(own).__name__}; closing raised {type(closing).__name__}: {closing}"
    assert record.getMessage() == expected
    traceback = record.exc_info[1] if record.exc_info else None
    assert traceback is (None if isinstance(closing, DeadlineError) else closing)


async def test_the_exception_of_closing_comes_out_of_a_block_that_ended(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DeadlineError, match="late"):
        async with Block(DeadlineError("late")):
            pass
    assert not caplog.records


async def test_a_cancellation_while_the_block_is_left_comes_out() -> None:
    with pytest.raises(asyncio.CancelledError):
        async with Block(asyncio.CancelledError()):
            raise ValueError("mine")


def test_all_clients_leave_their_blocks_by_the_one_rule() -> None:
    public = {kind for name in aiokproto.__all__ if hasattr(kind := getattr(aiokproto, name), "__aexit__")}
    known: set[type[AsyncContext]] = {
        Broker,
        Client,
        Cluster,
        ClusterClient,
        Consumer,
        ExactlyOnce,
        Producer,
        ShareConsumer,
        Transaction,
    }
    assert public <= known
    assert {kind.__aexit__ for kind in known} == {AsyncContext.__aexit__}


def test_a_rebalance_callback_that_raises_while_the_block_is_left_does_not_replace_its_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(partitions: list[TopicPartition]) -> None:
        raise RuntimeError("in on_revoked")

    async def leave(consumer: Consumer) -> None:
        async with consumer:
            while not consumer.assignment():
                await consumer.poll(100)
            raise ValueError("mine")

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t")
            consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g")
            consumer.subscribe("t", on_revoked=fail)
            with pytest.raises(ValueError, match="mine"):
                await leave(consumer)

    Simulation(1).run(main())
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == (
        "Consumer: its block was left by ValueError; closing raised RuntimeError: in on_revoked"
    )
