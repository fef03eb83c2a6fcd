"""Transactions whose end is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiokproto.broker import Broker
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.errors import (
    ClientClosedError,
    DeadlineError,
    FencedError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from aiokproto.producer import Producer, TransactionStatus
from tests.timeouts import LONG_TIMEOUT

HELD = 3600.0


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker() as broker:
        await broker.create_topic("t")
        yield broker


def transactional(broker: Broker) -> Producer:
    return Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="id", linger_ms=0)


async def test_a_commit_that_closing_interrupts_has_an_unknown_outcome(broker: Broker) -> None:
    """The task that commits isn't cancelled, because that would look as if its own caller had stopped it."""
    async with transactional(broker) as producer:
        with broker.faults.delay(EndTxnRequest, HELD) as held:
            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"record")
            committing = asyncio.create_task(txn.commit())
            await asyncio.wait_for(held.wait(), LONG_TIMEOUT)
            await producer.close(timeout_ms=0)
        with pytest.raises(TransactionOutcomeUnknownError, match="closed"):
            await committing


async def test_a_fenced_producer_raises_at_once_and_awaits_no_abort(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with transactional(broker) as producer:

        async def write_late() -> None:
            async with producer.transaction() as txn:
                await txn.send("t", b"record")
                async with transactional(broker):
                    await txn.send("t", b"late")

        with pytest.raises(FencedError, match="another producer"):
            await write_late()
    assert "not confirmed" not in caplog.text


async def test_an_abort_that_closing_interrupts_raises_that(broker: Broker) -> None:
    async with transactional(broker) as producer:
        with broker.faults.delay(EndTxnRequest, HELD) as held:
            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"record")
            aborting = asyncio.create_task(txn.abort())
            await asyncio.wait_for(held.wait(), LONG_TIMEOUT)
            await producer.close(timeout_ms=0)
        with pytest.raises(ClientClosedError, match="closed"):
            await aborting


async def test_a_transaction_whose_commit_was_cancelled_says_that_it_was_aborted(broker: Broker) -> None:
    async with transactional(broker) as producer:
        with broker.faults.delay(ProduceRequest, HELD) as held:
            txn = await producer.transaction().__aenter__()
            await txn.post("t", b"record")
            committing = asyncio.create_task(txn.commit())
            await asyncio.wait_for(held.wait(), LONG_TIMEOUT)
            committing.cancel()
            await asyncio.wait([committing])
            assert txn.status is TransactionStatus.ABORTED
            with pytest.raises(TransactionAbortedError, match="was aborted"):
                await txn.commit()
            with pytest.raises(TransactionAbortedError, match="was aborted"):
                await txn.post("t", b"late")
            with pytest.raises(DeadlineError, match="not delivered"):
                await producer.close(timeout_ms=0)
