"""Single schedules for groups: healthy partitions are still read, and so are topics that are created again; closing is
quick."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.schema import Response
from aiokproto.errors import DeadlineError, KafkaError, UnknownTopicError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.environment import TURNS_A_SECOND, Environment

Program = Callable[[Environment, dict[str, Any]], Awaitable[None]]
BROKERS = 3


def run(program: Program) -> Simulation:
    """Run a program with a cluster, whose topic t has a partition led by each broker."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(BROKERS, config={"group.min.session.timeout.ms": 500}) as cluster:
            await cluster.create_topic("t", BROKERS, replication=1)
            options: dict[str, Any] = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "group_id": "g",
                "auto_offset_reset": "earliest",
                "heartbeat_interval_ms": 200,
                "session_timeout_ms": 3000,
            }
            await program(Environment(simulation, cluster, "t"), options)

    simulation.run(main())
    return simulation


async def produce(environment: Environment, count: int, seconds: float) -> None:
    """Write ``count`` records to every partition, ``seconds`` apart."""
    for number in range(count):
        for partition in range(BROKERS):
            environment.append(partition, b"%d" % number)
        await asyncio.sleep(seconds)


@pytest.mark.parametrize("silent", range(BROKERS))
@pytest.mark.parametrize("group_id", [None, "g"])
def test_other_partitions_are_read_while_one_broker_is_silent(silent: int, group_id: str | None) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        # A request to a silent coordinator takes the request timeout to fail.
        options |= {"group_id": group_id, "request_timeout_ms": 2000, "session_timeout_ms": 60_000}
        if silent == environment.cluster.coordinator("g"):
            await environment.cluster.move_coordinator("g", (silent + 1) % BROKERS)
        async with Consumer("t", **options) as consumer:
            writing = asyncio.create_task(produce(environment, 60, 0.5))
            found: set[int] = set()
            while found != set(range(BROKERS)):
                found |= await seen(consumer, 1.0)
            for link in environment.links(silent):
                link.silence()
            last = dict.fromkeys(set(range(BROKERS)) - {silent}, environment.simulation.time())
            until = environment.simulation.time() + 20
            while environment.simulation.time() < until:
                for partition in await seen(consumer, 0.2):
                    if partition in last:
                        last[partition] = environment.simulation.time()
                waited = environment.simulation.time() - min(last.values())
                assert waited < 1.5, f"{last}"
            for link in environment.links(silent):
                link.restore()
            await writing

    run(program)


async def seen(consumer: Consumer, seconds: float) -> set[int]:
    """Return the partitions of the next records."""
    return {record.partition for record in await consumer.poll(seconds * 1000)}


@pytest.mark.parametrize("partitions", [BROKERS, 1])
@pytest.mark.parametrize("pause", [0.0, 8.0])
def test_a_group_reads_a_topic_that_was_created_again(partitions: int, pause: float) -> None:
    """The topic may have fewer partitions, and offsets of the previous one may be committed."""

    async def program(environment: Environment, options: dict[str, Any]) -> None:
        options |= {"metadata_max_age_ms": 500, "auto_commit_interval_ms": 200}
        async with Consumer("t", **options) as consumer:
            await produce(environment, 10, 0)
            got = 0
            while got < 10 * BROKERS:
                got += len(await consumer.poll(1000))
            await asyncio.sleep(1)
            async with Client(bootstrap_servers=environment.cluster.bootstrap_servers) as client:
                await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), max_version=5)
            turns, began = environment.simulation.loop.turns, environment.simulation.time()
            await asyncio.sleep(pause)
            await environment.cluster.create_topic("t", partitions)
            async with Producer(bootstrap_servers=environment.cluster.bootstrap_servers) as producer:
                for number in range(20):
                    await producer.send("t", b"new%d" % number, partition=number % partitions)
            values: list[bytes | None] = []
            while len(values) < 20:
                assert environment.simulation.time() - began < pause + 30, f"{len(values)} of 20 came"
                try:
                    values += [record.value for record in await consumer.poll(1000)]
                except UnknownTopicError:
                    pass
            assert sorted(values, key=str) == sorted((b"new%d" % number for number in range(20)), key=str)
            seconds = environment.simulation.time() - began
            assert environment.simulation.loop.turns - turns < 2000 + 10 * TURNS_A_SECOND * seconds

    run(program)


@pytest.mark.parametrize(
    ("client", "what", "committed", "seconds"), [("other", "request", 1, 1), ("first", "response", 0, 4.5)]
)
def test_closing_does_not_wait_for_joins(
    client: str, what: Literal["request", "response"], committed: int, seconds: float
) -> None:
    """The coordinator takes the last commit while it waits for other members to join. Once all have joined it takes
    none before this member's SyncGroup. Half of the time may pass until then, here without JoinGroup's response."""

    async def program(environment: Environment, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "cooperative-sticky", "auto_commit_interval_ms": 60_000}
        first, other = (Consumer("t", client_id=name, **options) for name in ("first", "other"))
        async with other, first:
            while not first.assignment() or not other.assignment():
                await first.poll(100)
                await other.poll(100)
            await produce(environment, 1, 0)
            records = await first.poll(1000)
            await first.poll(10)
            environment.cluster.faults.drop(JoinGroupRequest, what, client_id=client)
            async with Consumer("t", **options):
                await asyncio.sleep(1)
                began = environment.simulation.time()
                await first.close(8000)
                assert environment.simulation.time() - began < seconds
                place = TopicPartition(records[0].topic, records[0].partition)
                found = (await other.committed(place))[place]
                assert found is not None
                assert found.offset == committed

    run(program)


def test_after_a_stall_of_twice_the_session_timeout_partitions_are_lost_once() -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        events: list[str] = []
        consumer = Consumer(**options)
        consumer.subscribe(
            "t",
            on_assigned=lambda partitions: events.append("assigned") if partitions else None,
            on_revoked=lambda _: events.append("revoked"),
            on_lost=lambda _: events.append("lost"),
        )
        async with consumer:
            writing = asyncio.create_task(produce(environment, 100, 0.1))
            got: set[tuple[int, int]] = set()
            while len(got) < 20:
                got |= {(record.partition, record.offset) for record in await consumer.poll(500)}
            environment.simulation.loop.stall(6)
            while len(got) < 100 * BROKERS:
                got |= {(record.partition, record.offset) for record in await consumer.poll(5000)}
            await writing
        assert events in (["assigned", "lost", "assigned", "revoked"], ["assigned", "revoked"])

    run(program)


@pytest.mark.parametrize("which", ["on_assigned", "on_revoked"])
def test_a_callback_that_raises_ends_its_member_alone(which: str) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        def fail(_: list[TopicPartition]) -> None:
            raise ValueError("a bug")

        await produce(environment, 20, 0)
        broken = Consumer(**options)
        callbacks: dict[str, Any] = {which: fail}
        broken.subscribe("t", **callbacks)
        await broken.start()
        got: set[tuple[int, int]] = set()
        if which == "on_revoked":
            got |= {(record.partition, record.offset) for record in await broken.poll(5000, 1)}
        async with Consumer("t", **options) as healthy:
            failed = False
            until = environment.simulation.time() + 30
            while len(got) < 20 * BROKERS and environment.simulation.time() < until:
                got |= {(record.partition, record.offset) for record in await healthy.poll(200)}
                if not failed:
                    try:
                        await broken.poll(100, 1)
                    except KafkaError:
                        failed = True
                        try:
                            await broken.close(1000)
                        except ValueError:
                            pass
        assert failed
        assert len(got) == 20 * BROKERS

    run(program)


def test_a_coordinator_that_moves_is_found_again() -> None:
    """No connection is lost: the former coordinator returns NOT_COORDINATOR."""

    async def program(environment: Environment, options: dict[str, Any]) -> None:
        environment.append(0, b"x")
        async with Consumer("t", enable_auto_commit=False, **options) as consumer:
            await anext(consumer)
            for offset in range(3):
                await environment.cluster.move_coordinator("g")
                await consumer.commit({TopicPartition("t", 0): offset}, timeout_ms=3000)
            await asyncio.sleep(10)
            environment.append(0, b"y")
            assert (await asyncio.wait_for(anext(consumer), 5)).value == b"y"
            assert len(consumer.assignment()) == BROKERS

    run(program)


def test_a_group_is_left_whose_coordinator_has_just_moved() -> None:
    async def program(simulation: Simulation) -> None:
        async with Cluster(2) as cluster:
            await cluster.create_topic("t", 1)
            consumer = Consumer(
                "t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", enable_auto_commit=False
            )
            await consumer.start()
            await cluster.wait_for_group("g", 1)
            await cluster.move_coordinator("g")
            await consumer.close()
            group = cluster.group("g")
            assert group is not None
            assert not group.members

    simulation = Simulation(1)
    simulation.run(program(simulation))


def test_a_commit_response_without_a_partition_confirms_nothing() -> None:
    async def forgetful(call: RequestInfo, serve: Serve) -> Response | None:
        answer: Any = await serve(call.request)
        answer.topics[0].partitions.pop()
        return answer  # type: ignore[no-any-return]

    async def program(environment: Environment, options: dict[str, Any]) -> None:
        environment.append(0, b"x")
        async with Consumer("t", enable_auto_commit=False, **options) as consumer:
            await anext(consumer)
            environment.cluster.faults.intercept(OffsetCommitRequest, forgetful)
            offsets = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 0}
            with pytest.raises(DeadlineError, match="OffsetCommit"):
                await consumer.commit(offsets, timeout_ms=3000)

    run(program)


def test_a_deleted_topic_is_committed_for_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        await environment.cluster.create_topic("other", 1, replication=1)
        async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
            await producer.send("other", b"x")
        environment.append(0, b"x")
        async with Consumer("t", "other", auto_commit_interval_ms=500, **options) as consumer:
            for _ in range(2):
                await anext(consumer)
            async with Client(bootstrap_servers=options["bootstrap_servers"]) as client:
                request = DeleteTopicsRequest(topic_names=["other"], timeout_ms=1000)
                await client.request(request, max_version=5)
            for number in range(60):
                environment.append(0, b"%d" % number)
                with suppress(UnknownTopicError):
                    await consumer.poll(1000)
                await asyncio.sleep(1)
            committed = (await consumer.committed(("t", 0)))[TopicPartition("t", 0)]
            assert committed is not None
            assert committed.offset > 30

    run(program)
    refused = [record for record in caplog.records if "commit" in record.getMessage()]
    assert len(refused) <= 15
