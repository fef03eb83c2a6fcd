"""Every await of a transaction, and of an exactly-once session, cancelled at each of its suspensions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from aiokproto import ExactlyOnce, Producer
from aiokproto.broker import Cluster
from aiokproto.errors import TransactionAbortedError
from aiokproto.producer import Transaction, TransactionStatus
from aiokproto.records import BatchRecord, encode
from aiokproto.simulation import Simulation
from aiokproto.types import Record
from tests.simulation.cancelling import Suspensions, cancelled
from tests.simulation.one_producer import new_session
from tests.simulation.transaction_log import committed_values, hanging

Call = Callable[[Transaction], Awaitable[object]]

CALLS: dict[str, Call] = {
    "begin": lambda txn: txn.__aenter__(),
    "send": lambda txn: txn.send("t", b"mine", partition=0),
    "post": lambda txn: txn.post("t", b"mine", partition=0),
    "send_many": lambda txn: txn.send_many("t", [b"mine"] * 3, partition=0),
    "send_batch": lambda txn: txn.send_batch("t", encode([BatchRecord(0, 0, None, b"mine")]), partition=0),
    "send_offsets": lambda txn: txn.send_offsets({("t", 0): 5}, "g"),
    "commit": lambda txn: txn.commit(),
    "prepare": lambda txn: txn.prepare(),
    "abort": lambda txn: txn.abort(),
    "leave": lambda txn: txn.__aexit__(None, None, None),
}
MOST = 60
"""More suspensions than any call has."""
CONFIG = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "unstable.api.versions.enable": True,
    "transaction.two.phase.commit.enable": True,
}


async def once(name: str, at: int, release: str | None, *, open_before: bool) -> bool:
    """Cancel a call at a suspension, and check that the producer still works. Return whether the call has that
    suspension."""
    async with Cluster(1, auto_create_topics=False, config=CONFIG, as_version=release) as cluster:
        await cluster.create_topic("t", 1)
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id="id",
            linger_ms=0,
            transaction_two_phase_commit_enable=name == "prepare",
        ) as producer:
            if open_before:
                # The transaction is still ending when the next one starts.
                before = await producer.transaction().__aenter__()
                await before.send("t", b"before", partition=0)
                producer._transactions.start_abort()  # type: ignore[union-attr]
            txn = producer.transaction()
            if name != "begin":
                await txn.__aenter__()
                await txn.post("t", b"first", partition=0)
            was_cancelled = await cancelled(Suspensions(), CALLS[name](txn), at)
            outcome = await _outcome(txn)
            async with producer.transaction() as later:
                await later.send("t", b"later", partition=0)
        values = committed_values(cluster, "t", 1)[0]
        entry = cluster._running.groups.entry("g")
        offset = entry.offsets[("t", 0)].offset if entry is not None and entry.offsets else None
        assert not hanging(cluster, "t", 1)
        mine = values.count(b"mine")
        assert values == ([b"first"] if outcome and name != "begin" else []) + [b"mine"] * mine + [b"later"]
        assert outcome or not mine
        assert mine <= (3 if name == "send_many" else 1)
        if name == "send_offsets":
            assert offset == (5 if outcome else None), "committed with the transaction, or not at all"
            assert not (outcome and was_cancelled)
        return was_cancelled


async def _outcome(txn: Transaction) -> bool:
    """Commit a transaction that is left open, and return whether it is committed."""
    if txn.status in (TransactionStatus.OPEN, TransactionStatus.COMMITTING, TransactionStatus.PREPARED):
        try:
            await txn.commit()
        except TransactionAbortedError:
            return False
    return txn.status is TransactionStatus.COMMITTED


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("release", ["3.9", None], ids=["v1", "v2"])
@pytest.mark.parametrize("open_before", [False, True], ids=["first", "after an abort"])
def test_a_call_cancelled_wherever_it_suspends(name: str, release: str | None, open_before: bool) -> None:
    """The transaction is committed as a whole or not at all, as its status says, and the next one starts."""
    if name == "prepare" and release is not None:
        pytest.skip("two-phase commit needs version 2")
    points = 0
    for at in range(1, MOST):
        if not Simulation(at).run(once(name, at, release, open_before=open_before)):
            break
        points += 1
    else:
        pytest.fail(f"{name} suspends more than {MOST} times")
    assert points or name in ("begin", "post"), "it suspends at all"


SESSION_CALLS = ("start", "next", "commit", "close", "run")
MAX_SESSION = 200
"""The same for a session, which joins its group in small waits."""


async def session_once(name: str, at: int) -> bool:
    """Cancel a call of a session at a suspension. The input is still in the output once."""
    async with Cluster(1, auto_create_topics=False, config=CONFIG) as cluster:
        for topic in ("t", "out"):
            await cluster.create_topic(topic, 1)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_many("t", [b"%d" % number for number in range(6)])
        session = new_session(cluster)
        suspensions = Suspensions()
        was_cancelled = False
        try:
            if name == "start":
                was_cancelled = await cancelled(suspensions, session.start(), at)
            else:
                await session.start()
            if not was_cancelled:
                was_cancelled = await _use(session, name, suspensions, at)
        finally:
            if name == "close":
                was_cancelled = await cancelled(suspensions, session.close(), at)
            else:
                await session.close()
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send("t", b"6")
        async with new_session(cluster) as successor:
            async for records, txn in successor.batches():
                for record in records:
                    await txn.post("out", record.value, partition=0)
                if records[-1].value == b"6":
                    successor.stop()
        values = committed_values(cluster, "out", 1)[0]
        assert values == [b"%d" % number for number in range(6)] + [b"6"]
        assert not hanging(cluster, "out", 1)
        return was_cancelled


async def _use(session: ExactlyOnce, name: str, suspensions: Suspensions, at: int) -> bool:
    async def copy(records: list[Record], txn: Transaction) -> None:
        for record in records:
            await txn.send("out", record.value, partition=0)
        session.stop()

    if name == "run":
        return await cancelled(suspensions, session.run(copy, max_records=4), at)
    was_cancelled = name == "next" and await cancelled(suspensions, anext(session.batches(4)), at)
    batches = session.batches(4)
    records, txn = await anext(batches)
    for record in records:
        await txn.post("out", record.value, partition=0)
    if name == "commit" and await cancelled(suspensions, anext(batches), at):
        # The next call continues where it was.
        records, txn = await anext(batches)
        await copy(records, txn)
        return True
    return was_cancelled


@pytest.mark.parametrize("name", SESSION_CALLS)
def test_a_call_of_a_session_cancelled_wherever_it_suspends(name: str) -> None:
    """The next session processes what wasn't committed, and nothing twice."""
    points = 0
    for at in range(1, MAX_SESSION):
        if not Simulation(at).run(session_once(name, at)):
            break
        points += 1
    else:
        pytest.fail(f"{name} suspends more than {MAX_SESSION} times")
    assert points, "it suspends at all"
