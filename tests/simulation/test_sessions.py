"""Exactly-once sessions that are used by several tasks, left in the middle, or have records that can never be
written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokproto import ExactlyOnce, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError
from aiokproto.producer import Transaction
from aiokproto.simulation import Simulation
from aiokproto.types import Record
from tests.simulation.one_producer import new_session
from tests.simulation.transaction_log import committed_values, hanging

Program = Callable[[Cluster, ExactlyOnce], Awaitable[None]]


def run(program: Program) -> None:
    """Run a program with a session over some records in one partition. No transaction may be open afterwards."""

    async def main() -> None:
        async with Cluster(1, auto_create_topics=False) as cluster:
            for topic in ("t", "out"):
                await cluster.create_topic(topic, 1)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send_many("t", [b"%d" % number for number in range(6)])
            # The next fetch isn't held back, as in a topic that is always written to.
            async with new_session(cluster, fetch_max_wait_ms=10) as session:
                await program(cluster, session)
            assert not hanging(cluster, "out", 1)

    Simulation(1).run(main())


async def copy(records: list[Record[Any, Any]], txn: Transaction[Any, Any]) -> None:
    for record in records:
        await txn.post("out", record.value, partition=0)


async def copy_the_rest(cluster: Cluster, session: ExactlyOnce) -> list[bytes]:
    """Copy until everything is committed. Return what readers of committed records find."""
    async for records, txn in session.batches():
        await copy(records, txn)
        if records[-1].value == b"5":
            session.stop()
    return committed_values(cluster, "out", 1)[0]


def test_a_second_task_that_asks_for_batches_is_refused() -> None:
    """It would mistake a batch whose commit is under way for one whose loop was left, and rewind behind it."""

    async def program(cluster: Cluster, session: ExactlyOnce) -> None:
        batches = session.batches(3)
        await copy(*await anext(batches))
        with cluster.faults.delay(EndTxnRequest, 1.0, times=1):
            first = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0.1)
            with pytest.raises(ConfigurationError, match="one task at a time"):
                await anext(session.batches(3))
            with pytest.raises(ConfigurationError, match="one task at a time"):
                await anext(batches)
            records, txn = await first
        assert [record.value for record in records] == [b"3", b"4", b"5"]
        await copy(records, txn)
        session.stop()
        assert [each async for each in batches] == []
        assert committed_values(cluster, "out", 1)[0] == [b"%d" % number for number in range(6)]

    run(program)


def test_a_generator_that_is_closed_in_the_middle_of_a_batch_aborts_it() -> None:
    async def program(cluster: Cluster, session: ExactlyOnce) -> None:
        async def values() -> AsyncIterator[bytes]:
            async for records, txn in session.batches(3):
                for record in records:
                    await txn.post("out", record.value, partition=0)
                    yield record.value or b""

        generator = values()
        assert await anext(generator) == b"0"
        await generator.aclose()  # type: ignore[attr-defined]
        assert await copy_the_rest(cluster, session) == [b"%d" % number for number in range(6)]

    run(program)


def test_a_record_that_can_never_be_written_keeps_nothing_busy(caplog: pytest.LogCaptureFixture) -> None:
    async def program(cluster: Cluster, session: ExactlyOnce) -> None:
        attempts = 0

        async def process(records: list[Record[Any, Any]], txn: Transaction[Any, Any]) -> None:
            nonlocal attempts
            attempts += 1
            await copy(records, txn)

        with cluster.faults.fail(ProduceRequest, ErrorCode.INVALID_RECORD):
            running = asyncio.create_task(session.run(process))
            await asyncio.sleep(20)
            assert 10 <= attempts <= 60
        session.stop()
        await running

    caplog.set_level(logging.INFO, "aiokproto.exactly_once")
    run(program)
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "aiokproto.exactly_once"]
    assert all("INVALID_RECORD" in text for _, text in lines)
    assert [level for level, _ in lines[:3]] == ["INFO", "WARNING", "WARNING"]
    assert "number 3 in a row" in lines[2][1]
