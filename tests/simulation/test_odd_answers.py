"""Answers of brokers that are odd in one respect, forever or once. Everything else continues."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, UnknownTopicError
from aiokproto.simulation import Simulation
from tests.simulation.members import run, subscribed


def test_a_known_topic_that_is_refused_forever_is_looked_up_after_pauses() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def most(code: ErrorCode, seconds: int) -> int:
            """Return the highest number of requests in a second while the topic has an error."""
            counts = []
            with cluster.faults.fail(MetadataRequest, code, topic="t") as rule:
                for _ in range(seconds):
                    before = rule.count
                    with suppress(KafkaError):
                        await consumer.poll(500, 1)
                    await asyncio.sleep(0.5)
                    counts.append(rule.count - before)
                assert rule.count
            return max(counts)

        options |= {"group_id": None, "metadata_max_age_ms": 2000}
        async with Consumer("t", **options) as consumer:
            await anext(consumer)
            await most(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 10)
            # The metadata no longer has the topic, and each answer is final, so nothing delays the next request.
            assert await most(ErrorCode.TOPIC_AUTHORIZATION_FAILED, 20) <= 10
            assert await most(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 20) <= 10

    run(program)


def test_a_member_whose_join_is_answered_with_another_id_keeps_its_own() -> None:
    """Under the other id it would wait until the group has removed its own member, for 45 s each time."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        odd = 0

        async def rename(info: RequestInfo, serve: Serve) -> Response | None:
            nonlocal odd
            response: Any = await serve(info.request)
            if response is not None and not response.error_code and odd < 3:
                odd += 1
                response.member_id = "\x00"
            return response  # type: ignore[no-any-return]

        cluster.faults.intercept(JoinGroupRequest, rename)
        async with subscribed({**options, "session_timeout_ms": 45_000}) as consumer:
            while not consumer.assignment():
                assert simulation.time() < 10, consumer._engine.member and consumer._engine.member.problem
                await asyncio.sleep(0.1)
            assert odd == 3

    run(program)


def test_a_leader_does_not_wait_for_a_topic_that_it_knows_to_be_deleted() -> None:
    """No member of an eager group reads anything while the leader waits."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        await cluster.create_topic("u", 1)
        options["partition_assignment_strategy"] = "range"
        leader, other = Consumer(**options), Consumer(**options)
        leader.subscribe(pattern="t|u")
        other.subscribe("t", "u")
        begun = {consumer: simulation.time() for consumer in (leader, other)}
        pauses: list[float] = []

        async def read(consumer: Consumer) -> None:
            while True:
                with suppress(UnknownTopicError):
                    if await consumer.poll(1000, 1):
                        pauses.append(simulation.time() - begun[consumer])
                        begun[consumer] = simulation.time()

        async with leader, Client(bootstrap_servers=options["bootstrap_servers"]) as client:
            await leader.poll(1000)
            async with other, Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
                reading = [asyncio.create_task(read(consumer)) for consumer in (leader, other)]
                await asyncio.sleep(2)
                await client.request(DeleteTopicsRequest(topic_names=["u"], timeout_ms=5000), max_version=5)
                for number in range(60):
                    if number == 2:
                        pauses.clear()
                    for partition in range(2):
                        await producer.send("t", b"x", partition=partition)
                    await asyncio.sleep(0.1)
                for task in reading:
                    task.cancel()
                await asyncio.wait(reading)
        assert len(pauses) > 80
        # A rebalance takes two heartbeat intervals of 0.2 s.
        assert max(pauses) < 0.8

    run(program)


def test_an_assignment_that_cannot_be_decoded_does_not_keep_other_members_from_reading() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def cut(info: RequestInfo, serve: Serve) -> Response | None:
            response: Any = await serve(info.request)
            if response is not None and info.client_id == "odd":
                response.assignment = bytes(response.assignment)[:5]
            return response  # type: ignore[no-any-return]

        options["partition_assignment_strategy"] = "cooperative-sticky"
        cluster.faults.intercept(SyncGroupRequest, cut)
        async with (
            subscribed(options) as healthy,
            subscribed({**options, "client_id": "odd"}) as odd,
            Producer(bootstrap_servers=options["bootstrap_servers"]) as producer,
        ):
            await odd.poll(2000)
            (mine,) = healthy.assignment()
            for number in range(10):
                sent = await producer.send("t", b"%d" % number, partition=mine.partition)
                while (await healthy.position(mine)) <= sent.offset:
                    assert await healthy.poll(1000), f"nothing after {number} records"
                assert not (await healthy.commit()).refused
                await odd.poll(1000)

    run(program)
