"""Records that a member read before the group removed it aren't committed by its new identity.

The group removes the member while the application works. It joins again in the background, and owns partitions in a new
generation. Another member may have read them in between, or none. Either way the records are delivered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.txn_offset_commit import TxnOffsetCommitRequest
from aiokproto.consumer import CommitResult, Progress
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import CommitError, TransactionAbortedError
from aiokproto.interceptors import Interceptor
from aiokproto.producer import Transaction
from aiokproto.simulation import Simulation
from aiokproto.types import GroupMetadata, Record, TopicPartition
from tests.simulation.members import member_of, run

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "epochs": {"group_protocol": "consumer"},
    "static": {"group_instance_id": "static"},
}
MANUAL = {"enable_auto_commit": False, "isolation_level": "read_committed"}


class Delivery:
    """All ten records of the topic, delivered to a member that the group then removes."""

    def __init__(self, consumer: Consumer, records: list[Record]) -> None:
        self.consumer = consumer
        self.records = records
        self.progress = consumer.progress(records)
        self.offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}


async def all_positions(lost: Delivery, txn: Transaction) -> None:
    await txn.send_offsets(lost.consumer)


async def dict_with_identity(lost: Delivery, txn: Transaction) -> None:
    await txn.send_offsets(lost.offsets, lost.consumer.group_metadata())


async def early_progress(lost: Delivery, txn: Transaction) -> None:
    await txn.send_offsets(lost.progress)


async def late_progress(lost: Delivery, txn: Transaction) -> None:
    await txn.send_offsets(lost.consumer.progress(lost.records))


IN_TRANSACTIONS = (all_positions, dict_with_identity, early_progress, late_progress)
COMMITS: dict[str, Callable[[Delivery], Any]] = {
    "everything": lambda lost: None,
    "record": lambda lost: lost.records[-1],
    "list": lambda lost: lost.records,
    "dict": lambda lost: lost.offsets,
}


async def removed(
    cluster: Cluster, options: dict[str, Any], use: Callable[[Delivery], Awaitable[None]], *, other: bool, polls: bool
) -> None:
    """Call ``use`` with the records that a member had read before it was removed. With ``other``, another member reads
    them meanwhile. With ``polls``, the application has requested more."""
    options = {**options, **MANUAL}
    servers = cluster.bootstrap_servers
    async with Consumer("t", **options) as consumer:
        records: list[Record] = []
        while len(records) < 10:
            records += await consumer.poll(1000)
        lost = Delivery(consumer, records)
        before = consumer.group_metadata()
        stopped = asyncio.Event()
        others = asyncio.create_task(_copy(servers, options, stopped)) if other else None
        cluster.expire_session("g", before.member_id)
        await reached(lambda: joined_again(consumer, before))
        if other:
            await asyncio.sleep(5.0)
        if polls:
            await consumer.poll(1000)
        try:
            await use(lost)
        finally:
            stopped.set()
            if others is not None:
                await others


async def reached(condition: Callable[[], object]) -> None:
    """Wait in virtual time, and fail after two virtual minutes."""
    for _ in range(1200):
        if condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it does not come to that")


def joined_again(consumer: Consumer, before: GroupMetadata) -> bool:
    """Return whether a member that had that identity owns partitions with another one."""
    member = consumer._engine.member
    return bool(consumer.assignment()) and member is not None and member.metadata != before


def committed(cluster: Cluster) -> dict[tuple[str, int], int]:
    """Return the group's committed offsets."""
    group = cluster._running.groups.entry("g")
    return {where: found.offset for where, found in group.offsets.items()} if group else {}


async def _copy(servers: str, options: dict[str, Any], stopped: asyncio.Event) -> None:
    """Run another member, which writes what it reads in transactions."""
    own = {key: value for key, value in options.items() if key != "group_instance_id"}
    async with Consumer("t", **own) as consumer, Producer(bootstrap_servers=servers, transactional_id="b") as producer:
        while not stopped.is_set():
            if records := await consumer.poll(200):
                async with producer.transaction() as txn:
                    for record in records:
                        await txn.post("out", record.value)
                    await txn.send_offsets(consumer.progress(records))


async def read_out(cluster: Cluster) -> list[bytes | None]:
    async with Consumer(
        "out",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as reader:
        return [record.value async for record in reader.read_to_end()]


def _name(protocol: str, other: bool, polls: bool) -> str:
    return f"{protocol}, {'others' if other else 'nobody'} had it, {'after' if polls else 'before'} the next poll"


CASES = [pytest.param(*case, id=_name(*case)) for case in product(PROTOCOLS, (True, False), (False, True))]


@pytest.mark.parametrize(("protocol", "other", "polls"), CASES)
def test_no_call_of_a_transaction_commits_what_was_lost(protocol: str, other: bool, polls: bool) -> None:
    """Each case takes 0.2 s. The calls are made one after the other, each twice in its transaction."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        await cluster.create_topic("out", 1)

        async def use(lost: Delivery) -> None:
            async with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="a") as producer:
                for call in IN_TRANSACTIONS:
                    # The first of them reports the loss, because nothing is requested in between.
                    with pytest.raises((TransactionAbortedError, CommitError)) as caught:
                        await _twice(producer, call, lost)
                    cause = caught.value if isinstance(caught.value, CommitError) else caught.value.__cause__
                    assert isinstance(cause, CommitError), repr(caught.value)
                # Rewinding affects only owned partitions.
                lost.progress.rewind()
                # The application now knows about the loss, and requests the next records, which are its own again.
                records = await lost.consumer.poll(500)
                async with producer.transaction() as txn:
                    for record in records:
                        await txn.post("out", record.value)
                    await txn.send_offsets(lost.consumer.progress(records))
                    assert lost.consumer.group_metadata().generation >= 0

        await removed(cluster, {**options, **PROTOCOLS[protocol]}, use, other=other, polls=polls)
        written = await read_out(cluster)
        assert len(written) == len(set(written)), "no record is processed twice"

    run(program)


async def _twice(producer: Producer, call: Callable[[Delivery, Transaction], Awaitable[None]], lost: Delivery) -> None:
    async with producer.transaction() as txn:
        for record in lost.records:
            await txn.post("out", record.value)
        with pytest.raises((TransactionAbortedError, CommitError)):
            await call(lost, txn)
        await call(lost, txn)


@pytest.mark.parametrize(("protocol", "other", "polls"), CASES)
def test_a_commit_has_what_was_lost_as_an_outcome(protocol: str, other: bool, polls: bool) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        await cluster.create_topic("out", 1)
        found: dict[str, CommitResult] = {}

        async def use(lost: Delivery) -> None:
            offsets = committed(cluster)
            for name, what in COMMITS.items():
                for _ in range(2):
                    found[name] = await lost.consumer.commit(what(lost))
                    names = ["t"] if name == "record" else ["t", "t"]
                    assert [each.topic for each in found[name].lost] == names, name
                    with pytest.raises(CommitError, match="processed again"):
                        found[name].check()
            assert other or committed(cluster) == offsets, "nothing was sent"

        await removed(cluster, {**options, **PROTOCOLS[protocol]}, use, other=other, polls=polls)

    run(program)


class Replacing(Interceptor):
    """Replaces delivered records with its own."""

    def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
        return [Record(each.topic, each.partition, each.offset, 0, each.key, each.value) for each in records]


def test_records_that_an_interceptor_has_made_belong_to_their_delivery() -> None:
    """By their offsets alone, they would look like records that were delivered again."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def use(lost: Delivery) -> None:
            for what in (lost.records[-1], lost.records):
                assert (await lost.consumer.commit(what)).lost
            with pytest.raises(CommitError, match="taken away"):
                lost.consumer.progress(lost.records).group_metadata()

        await removed(cluster, {**options, "interceptors": Replacing()}, use, other=False, polls=True)
        assert not committed(cluster)

    run(program)


CONTINUED = {name: own for name, own in PROTOCOLS.items() if name in ("cooperative", "epochs")}


@pytest.mark.parametrize("protocol", CONTINUED)
def test_a_retry_has_the_generation_that_came_meanwhile(protocol: str) -> None:
    """A rebalance that leaves the partition with its owner costs nothing: the next attempt has the new epoch."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        await cluster.create_topic("one", 1)
        servers = cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as source:
            await source.send_many("one", [b"a", b"b"])
        own = {**options, **MANUAL, **PROTOCOLS[protocol]}
        async with (
            Consumer("one", **own) as consumer,
            Producer(bootstrap_servers=servers, transactional_id="a") as producer,
        ):
            records = await consumer.poll(5000)
            before = consumer.group_metadata()
            async with producer.transaction() as txn:
                with cluster.faults.fail(TxnOffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                    sending = asyncio.create_task(txn.send_offsets(consumer.progress(records)))
                    async with Consumer("one", **own):
                        await reached(lambda: joined_again(consumer, before))
                await sending
            assert committed(cluster)["one", 0] == 2
            assert consumer.assignment()

    run(program)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_retry_after_a_loss_is_not_sent(protocol: str) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        own = {**options, **MANUAL, **PROTOCOLS[protocol]}
        async with (
            Consumer("t", **own) as consumer,
            Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="a") as producer,
        ):
            records = await consumer.poll(5000)
            before = consumer.group_metadata()

            async def send() -> None:
                async with producer.transaction() as txn:
                    with cluster.faults.fail(TxnOffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                        sending = asyncio.create_task(txn.send_offsets(consumer.progress(records)))
                        await asyncio.sleep(0.05)
                        cluster.expire_session("g", before.member_id)
                        # The fault is still there, so the attempts end by themselves.
                        await asyncio.wait([sending])
                    await sending

            with pytest.raises(TransactionAbortedError) as caught:
                await send()
            assert isinstance(caught.value.__cause__, CommitError)
            assert not committed(cluster)

    run(program)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_that_was_under_way_during_a_loss_is_refused(protocol: str) -> None:
    """The client sent it in time, but the coordinator knows that the member of that generation has gone."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        own = {**options, **MANUAL, **PROTOCOLS[protocol]}
        async with (
            Consumer("t", **own) as consumer,
            Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="a") as producer,
        ):
            records = await consumer.poll(5000)
            before = consumer.group_metadata()

            async def send() -> None:
                async with producer.transaction() as txn:
                    with cluster.faults.delay(TxnOffsetCommitRequest, 4.0):
                        sending = asyncio.create_task(txn.send_offsets(consumer.progress(records)))
                        await asyncio.sleep(0.05)
                        cluster.expire_session("g", before.member_id)
                        await asyncio.wait([sending])
                    assert joined_again(consumer, before)
                    await sending

            with pytest.raises(TransactionAbortedError):
                await send()
            assert not committed(cluster)

    run(program)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_automatic_commit_does_not_undo_that_of_another_member(protocol: str) -> None:
    """The application still has a record from before the loss, which says nothing about the new position."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        own = {**options, **PROTOCOLS[protocol], "auto_commit_interval_ms": 200}
        async with Consumer("t", **own) as consumer:
            record = await anext(consumer)
            before = consumer._engine.member.metadata  # type: ignore[union-attr]
            cluster.expire_session("g", before.member_id)
            other = {key: value for key, value in own.items() if key != "group_instance_id"}
            async with Consumer("t", **other) as second:
                read = 0
                while read < 10:
                    read += len(await second.poll(500))
                await second.poll(0)
                await second.commit()
            await reached(lambda: joined_again(consumer, before))
            await asyncio.sleep(2.0)
            assert committed(cluster) == {("t", 0): 5, ("t", 1): 5}
            assert (await consumer.commit(record)).lost

    run(program)


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "epochs"])
@pytest.mark.parametrize("way", ["batch", "handler"])
def test_what_outlives_a_rebalance_commits_nothing(protocol: str, way: str) -> None:
    """The cases are a batch that is kept, and a handler of run() that continues in spite of its cancellation."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        given: dict[str, Any] = {**options, **PROTOCOLS[protocol], "enable_auto_commit": False}
        consumer = Consumer(**given)
        results: list[CommitResult] = []
        lost = asyncio.Event()
        consumer.subscribe("t", on_lost=lambda _: lost.set())
        async with consumer:

            async def late(what: Any) -> None:
                try:
                    await lost.wait()
                finally:
                    await reached(consumer.assignment)
                    results.append(await consumer.commit(what))

            async def handle(record: Record) -> None:
                if not lost.is_set():
                    await late(record)

            async def read() -> None:
                async for batch in consumer.batches():
                    if not lost.is_set():
                        await late(batch)

            working = asyncio.create_task(read() if way == "batch" else _run(consumer, handle))
            await reached(consumer.assignment)
            await asyncio.sleep(1.0)
            before = consumer.assignment()
            assert before
            cluster.expire_session("g", member_of(cluster))
            await reached(lambda: results)
            assert all(each.lost and not each.committed for each in results)
            working.cancel()
            await asyncio.wait([working])
            assert not committed(cluster)

    run(program)


async def _run(consumer: Consumer, handle: Callable[[Record], Awaitable[None]]) -> None:
    await consumer.run(handle, concurrency=1)


def test_a_loss_is_reported_once_by_the_listener() -> None:
    """The next request afterwards is about the application's new records."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        consumer = Consumer(**{**options, **MANUAL})
        losses: list[TopicPartition] = []
        consumer.subscribe("t", on_lost=losses.extend)
        async with consumer:
            await consumer.poll(5000)
            before = consumer.group_metadata()
            cluster.expire_session("g", before.member_id)
            await reached(lambda: losses and consumer.assignment())
            with pytest.raises(CommitError):
                consumer.group_metadata()
            assert await consumer.poll(5000)
            assert consumer.group_metadata().generation >= 0

    run(program)


def test_a_revocation_that_leaves_records_uncommitted_is_a_loss() -> None:
    """The group moves a partition between two polls of one transaction."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        own = {**options, **MANUAL, **PROTOCOLS["cooperative"]}
        servers = cluster.bootstrap_servers
        async with (
            Consumer("t", **own) as consumer,
            Producer(bootstrap_servers=servers, transactional_id="a") as producer,
        ):

            async def send() -> None:
                async with producer.transaction() as txn:
                    records: list[Record] = []
                    while len(records) < 10:
                        records += await consumer.poll(1000)
                    async with Consumer("t", **own) as second:
                        while len(consumer.assignment()) > 1:
                            records += await consumer.poll(200)
                            await second.poll(0)
                        await txn.send_offsets(consumer)

            with pytest.raises(TransactionAbortedError) as caught:
                await send()
            assert isinstance(caught.value.__cause__, CommitError)

    run(program)


def test_what_was_committed_before_a_rebalance_is_no_loss() -> None:
    """The records are committed by commit(), or by a transaction. The calls after it aren't disturbed."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with (
            Consumer("t", **{**options, **MANUAL}) as consumer,
            Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="a") as producer,
        ):
            for way in ("commit", "consumer", "progress"):
                consumer.seek_to_beginning() if consumer.assignment() else None
                read = 0
                while read < 10:
                    records = await consumer.poll(1000)
                    read += len(records)
                    if way == "commit":
                        (await consumer.commit()).check()
                        continue
                    async with producer.transaction() as txn:
                        await txn.send_offsets(consumer if way == "consumer" else consumer.progress(records))
                before = consumer.group_metadata()
                cluster.expire_session("g", before.member_id)
                await reached(partial(joined_again, consumer, before))
                assert (await consumer.commit()).lost == []

    run(program)


def test_assigned_partitions_are_never_lost() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        consumer = Consumer(**{**options, **MANUAL})
        consumer.assign(("t", 0), ("t", 1))
        async with consumer:
            records: list[Record] = []
            while len(records) < 10:
                records += await consumer.poll(1000)
            consumer.assign(("t", 1))
            consumer.assign(("t", 0), ("t", 1))
            assert not (await consumer.commit(records)).lost
            progress = consumer.progress(records)
            assert isinstance(progress, Progress)
            assert progress.lost == []
            assert progress.group_metadata() == consumer.group_metadata()

    run(program)
