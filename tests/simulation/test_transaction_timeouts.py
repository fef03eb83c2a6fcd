"""A transaction that timed out isn't mistaken for one that another producer has taken over, whatever the brokers say
first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest

from aiokproto import Consumer, ExactlyOnce, Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import FencedError, TransactionAbortedError
from aiokproto.producer import Transaction
from aiokproto.simulation import Simulation
from aiokproto.types import Record
from tests.simulation.members import run

RELEASES = {"version 1": "3.9", "version 2": None}
TIMEOUT_MS = 1000


async def send(txn: Transaction) -> None:
    await txn.send("t", b"late", partition=0)


async def send_elsewhere(txn: Transaction) -> None:
    await txn.send("t", b"late", partition=1)


async def post(txn: Transaction) -> None:
    await (await txn.post("t", b"late", partition=0))


async def send_offsets(txn: Transaction) -> None:
    await txn.send_offsets({("t", 0): 1}, "g")


async def commit(txn: Transaction) -> None:
    await txn.commit()


LATE = (send, send_elsewhere, post, send_offsets, commit)


def producer(cluster: Cluster, **options: Any) -> Producer:
    given = {"transactional_id": "a", "transaction_timeout_ms": TIMEOUT_MS, "linger_ms": 0, **options}
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **given)


@pytest.mark.parametrize(
    ("release", "late"), [*product(RELEASES, LATE)], ids=lambda each: getattr(each, "__name__", each)
)
def test_a_timeout_is_an_abort_and_the_producer_goes_on(
    release: str, late: Callable[[Transaction], Awaitable[None]]
) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with producer(cluster) as writer:

            async def in_time(value: bytes, *, slow: bool) -> None:
                async with writer.transaction() as txn:
                    await txn.send("t", value, partition=0)
                    if slow:
                        await asyncio.sleep(3.0)
                        await late(txn)

            for value in (b"x", b"y"):
                with pytest.raises(TransactionAbortedError, match=f"transaction_timeout_ms={TIMEOUT_MS}"):
                    await in_time(value, slow=True)
            await in_time(b"z", slow=False)
            assert str(writer.health()) == "ok"

    run(program, RELEASES[release])


def test_a_late_commit_that_is_refused_as_fenced_is_a_timeout() -> None:
    """Coordinators of later releases answer like this, in version 2 too."""

    async def fenced(call: RequestInfo, serve: Serve) -> Response | None:
        response: Any = await serve(call.request)
        if response.error_code == ErrorCode.INVALID_TXN_STATE:
            response.error_code = ErrorCode.PRODUCER_FENCED
        return response  # type: ignore[no-any-return]

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with producer(cluster) as writer:
            txn = writer.transaction()
            await txn.__aenter__()
            await txn.send("t", b"x")
            await asyncio.sleep(3.0)
            with (
                cluster.faults.intercept(EndTxnRequest, fenced),
                pytest.raises(TransactionAbortedError, match="transaction_timeout_ms"),
            ):
                await txn.commit()
            async with writer.transaction() as txn:
                await txn.send("t", b"y")

    run(program)


@pytest.mark.parametrize(
    ("release", "late", "expired"),
    [*product(RELEASES, LATE, (False, True))],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_producer_that_was_taken_over_is_fenced(
    release: str, late: Callable[[Transaction], Awaitable[None]], expired: bool
) -> None:
    """This holds even if its transaction had timed out before. Its successor's transaction isn't harmed."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        first = producer(cluster)
        await first.start()
        old = first.transaction()
        await old.__aenter__()
        await old.send("t", b"old", partition=0)
        if expired:
            await asyncio.sleep(3.0)
        async with producer(cluster, transaction_timeout_ms=60_000) as second, second.transaction() as txn:
            await txn.send("t", b"new", partition=0)
            with pytest.raises(FencedError, match="another producer"):
                await late(old)
            with pytest.raises(FencedError):
                await first.transaction().__aenter__()
            await txn.send("t", b"new", partition=0)
        await first.close()

    run(program, RELEASES[release])


def test_a_producer_whose_end_was_not_answered_takes_nobodys_epoch() -> None:
    """In version 1 its commit was executed, its successor has the next epoch, and the repeated commit is refused."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        first = producer(cluster, request_timeout_ms=500, default_api_timeout_ms=20_000)
        await first.start()
        txn = first.transaction()
        await txn.__aenter__()
        await txn.send("t", b"old", partition=0)
        with cluster.faults.drop(EndTxnRequest, "response", times=1):
            ending = asyncio.create_task(txn.commit())
            await asyncio.sleep(0.2)
            async with producer(cluster) as second, second.transaction() as next_one:
                await next_one.send("t", b"new", partition=0)
                with pytest.raises(FencedError):
                    await ending
        await first.close()

    run(program, RELEASES["version 1"])


@pytest.mark.parametrize(("release", "how"), [*product(RELEASES, ("send", "post"))])
def test_a_session_repeats_a_batch_that_took_too_long(release: str, how: str) -> None:
    """This is true of send() and of post(), and after stop() until it is committed."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        await cluster.create_topic("out", 1)
        own = {**options, "enable_auto_commit": False, "isolation_level": "read_committed"}
        session = ExactlyOnce(Consumer("t", **own), producer(cluster))
        slow = [3.0, 3.0]

        async def copy(records: list[Record], txn: Transaction) -> None:
            for record in records:
                await (txn.send if how == "send" else txn.post)("out", record.value)
                if slow:
                    await asyncio.sleep(slow.pop())
            session.stop()

        async with session:
            await session.run(copy)
        async with Consumer("out", **own) as reader:
            written: list[bytes | None] = []
            while len(written) < 5 and (records := await reader.poll(1000)):
                written += [record.value for record in records]
        assert len(written) >= 5
        assert len(written) == len(set(written))

    run(program, RELEASES[release])


def test_the_blocks_own_error_is_not_replaced_by_the_error_of_closing() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        own = {**options, "enable_auto_commit": False, "isolation_level": "read_committed"}

        async def fail() -> None:
            async with ExactlyOnce(Consumer("t", **own), producer(cluster, close_timeout_ms=500)) as session:
                async for _, txn in session.batches():
                    await txn.post("t", b"x")
                    await cluster.stop_broker(0)
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        await cluster.start_broker(0)

    run(program)
