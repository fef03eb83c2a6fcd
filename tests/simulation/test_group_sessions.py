"""A member whose session may be over delivers nothing before the coordinator has confirmed it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.schema import Response
from aiokproto.consumer.rebalancing import UNCONFIRMED
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, FencedError, GroupError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.members import Events, member_of, run, subscribed

FIRST = TopicPartition("t", 0)


def test_after_a_stall_nothing_is_delivered_before_the_coordinator_has_confirmed_the_session() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        async with subscribed({**options, "enable_auto_commit": False}, **events.listeners()) as consumer:
            await consumer.poll(5000, max_records=1)
            heartbeats = cluster.faults.delay(HeartbeatRequest, 0.5)
            member = member_of(cluster)
            # The session ends while this process is suspended, and then the responses are slow.
            await asyncio.sleep(0.1)
            simulation.loop.stall(6)
            cluster.expire_session("g", member)
            assert await consumer.poll(200) == []
            assert UNCONFIRMED in str(consumer.partition_state(FIRST)) or not consumer.assignment()
            heartbeats.remove()
            records = await consumer.poll(5000)
            assert records[0].offset == 0, "nothing was committed, so that it begins again"
            assert events.seen == [("assigned", 2), ("lost", 2), ("assigned", 2)]

    run(program)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("blocked", [True, False])
def test_the_warning_of_an_uncertain_session_says_whether_the_event_loop_was_blocked(
    blocked: bool, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "group_protocol": protocol}) as consumer:
            await consumer.poll(5000, max_records=1)
            for request in (HeartbeatRequest, ConsumerGroupHeartbeatRequest):
                cluster.faults.drop(request)
            if blocked:
                # The broker determines the length of a session of the consumer protocol.
                simulation.loop.stall(100)
            await asyncio.sleep(60)

    run(program)
    said = [text for text in map(str, caplog.messages) if "the session may have expired" in text]
    assert said
    assert [bool(re.search(r"the event loop did not run for \d\d\.\d s", text)) for text in said[:1]] == [blocked]


BROKER_SESSION = 6.0
"""The broker's session timeout in virtual seconds, a fraction of what the members request."""


def with_consumer_groups(program: Callable[[Cluster, dict[str, Any]], Coroutine[Any, Any, None]]) -> None:
    """Run a program with a broker that has short sessions, and whose topic t gets records all the time."""
    config = {
        "group.consumer.min.session.timeout.ms": 500,
        "group.consumer.session.timeout.ms": int(BROKER_SESSION * 1000),
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 500,
    }

    async def main() -> None:
        async with Cluster(1, config=config) as cluster:
            await cluster.create_topic("t", 1)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send_many("t", [b"x"] * 1000)
            options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", "auto_offset_reset": "earliest"}
            await program(cluster, {**options, "group_protocol": "consumer"})

    Simulation(1).run(main())


@pytest.mark.parametrize("known", [True, False])
def test_a_member_of_the_consumer_protocol_delivers_for_as_long_as_the_brokers_session(known: bool) -> None:
    """Other members may own its partitions afterwards. If it may not describe the group, its own option counts."""

    async def program(cluster: Cluster, options: dict[str, Any]) -> None:
        if not known:
            cluster.faults.fail(DescribeConfigsRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        session = BROKER_SESSION if known else 20.0
        async with subscribed({**options, "session_timeout_ms": 20_000, "enable_auto_commit": False}) as consumer:
            assert await consumer.poll(5000, max_records=1)
            cluster.faults.drop(ConsumerGroupHeartbeatRequest)
            time = asyncio.get_running_loop().time
            began = last = time()
            while time() < began + 30:
                if await consumer.poll(100, max_records=1):
                    last = time()
                await asyncio.sleep(0.1)
            assert session - 1.5 <= last - began <= session, "the last response is at most an interval old"
            assert UNCONFIRMED in str(consumer.partition_state(FIRST))

    with_consumer_groups(program)


def test_a_name_that_another_member_has_is_an_error_once_it_cannot_be_a_former_self() -> None:
    """This is as with the classic protocol, except that the member that has the name keeps it."""

    async def program(cluster: Cluster, options: dict[str, Any]) -> None:
        own = {**options, "group_instance_id": "i"}
        async with subscribed(own) as first, subscribed(own) as second:
            assert await first.poll(5000, max_records=1)
            began = asyncio.get_running_loop().time()

            async def read_on() -> None:
                while True:
                    await first.poll(500, max_records=1)

            reading = asyncio.create_task(read_on())
            with pytest.raises(GroupError, match="group_instance_id='i'") as caught:
                await anext(second)
            assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
            took = asyncio.get_running_loop().time() - began
            assert BROKER_SESSION <= took <= 2 * BROKER_SESSION
            assert second.health().ended
            assert first.assignment()
            reading.cancel()
            await asyncio.wait([reading])

    with_consumer_groups(program)


def test_after_a_stall_opened_records_are_dropped_in_the_next_loop_iteration() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "enable_auto_commit": False}) as consumer:
            assert (await anext(consumer)).offset == 0
            cluster.faults.drop(HeartbeatRequest)
            simulation.loop.stall(6)
            await asyncio.sleep(0)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(consumer), 1)

    run(program)


def test_a_member_whose_session_is_confirmed_after_a_silence_continues() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        async with subscribed(options, **events.listeners()) as consumer:
            assert await consumer.poll(5000, max_records=1)
            # The coordinator has kept the session, but this member gets no response.
            silence = cluster.faults.drop(HeartbeatRequest, "response")
            await asyncio.sleep(2.5)
            assert await consumer.poll(100, max_records=1)
            await asyncio.sleep(1.5)
            assert UNCONFIRMED in str(consumer.partition_state(FIRST))
            assert await consumer.poll(100) == []
            silence.remove()
            assert await consumer.poll(3000)
            assert events.seen == [("assigned", 2)]

    run(program)


def test_a_member_without_a_session_cannot_commit() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "enable_auto_commit": False}) as consumer:
            await anext(consumer)
            simulation.loop.stall(6)
            cluster.expire_session("g", member_of(cluster))
            assert (await consumer.commit({FIRST: 1})).lost == [FIRST]

    run(program)


def test_a_fenced_commit_ends_the_consumer() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "group_instance_id": "static"}) as consumer:
            await anext(consumer)
            cluster.faults.fail(OffsetCommitRequest, ErrorCode.FENCED_INSTANCE_ID)
            with pytest.raises(FencedError):
                await consumer.commit({FIRST: 1})
            await asyncio.sleep(0.1)
            for call in (consumer.poll(1000), consumer.committed(FIRST), consumer.commit({FIRST: 1})):
                with pytest.raises(FencedError):
                    await call

    run(program)


def test_an_automatic_commit_that_is_fenced_ends_the_consumer() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"group_instance_id": "static", "auto_commit_interval_ms": 200}
        async with subscribed(options) as consumer:
            cluster.faults.fail(OffsetCommitRequest, ErrorCode.FENCED_INSTANCE_ID)
            await anext(consumer)
            await anext(consumer)
            await asyncio.sleep(1)
            with pytest.raises(FencedError):
                await consumer.poll(1000)

    run(program)


def test_a_refused_automatic_commit_is_raised_once_and_reading_continues() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "auto_commit_interval_ms": 1000}) as consumer:
            refusal = cluster.faults.fail(OffsetCommitRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            assert await consumer.poll(1000, max_records=1)
            assert await consumer.poll(1000, max_records=1)
            await asyncio.sleep(1.5)
            refusal.remove()
            with pytest.raises(AuthorizationError, match="OffsetCommit"):
                await consumer.poll(1000, max_records=1)
            assert await consumer.poll(1000, max_records=1)

    run(program)


def test_nothing_is_delivered_after_a_callback_during_which_the_session_became_unconfirmed() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def assigned(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(10)

        silence = cluster.faults.drop(HeartbeatRequest, "response")
        async with subscribed(options, on_assigned=assigned) as consumer:
            assert await consumer.poll(12_000) == []
            assert UNCONFIRMED in str(consumer.partition_state(FIRST))
            silence.remove()
            assert await consumer.poll(5000)

    run(program)


def test_a_member_removed_during_a_callback_delivers_no_more_records() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events, calls = Events(), 0
        added = asyncio.Event()

        async def assigned(partitions: list[TopicPartition]) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                added.set()
                await asyncio.sleep(10)

        options |= {"partition_assignment_strategy": "cooperative-sticky", "enable_auto_commit": False}
        listeners = {**events.listeners(), "on_assigned": assigned}
        await cluster.create_topic("u", 1)
        async with subscribed(options, **listeners) as consumer:
            assert await consumer.poll(5000, max_records=1)
            consumer.subscribe("t", "u", **listeners)
            await asyncio.wait_for(added.wait(), 5)
            assert await consumer.poll(1000, max_records=1), "what is not concerned is read on"
            cluster.expire_session("g", member_of(cluster))
            await asyncio.sleep(1)
            assert await consumer.poll(5000) == []
            assert events.seen == []
            assert await consumer.poll(10_000), "it is a member again"
            assert events.seen == [("lost", 3)]

    run(program)


def test_a_join_without_a_response_does_not_keep_the_session() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "cooperative-sticky", "enable_auto_commit": False}
        await cluster.create_topic("u", 1)
        async with subscribed(options) as consumer:
            assert await consumer.poll(5000, max_records=1)
            silence = cluster.faults.drop([JoinGroupRequest, HeartbeatRequest])
            consumer.subscribe("t", "u")
            await asyncio.sleep(2)
            assert await consumer.poll(500, max_records=1), "partitions that stay are read on during a rebalance"
            await asyncio.sleep(2)
            group = cluster.group("g")
            assert group is not None
            assert not group.members, "the coordinator has removed it by now"
            assert await consumer.poll(1000, max_records=1) == []
            silence.remove()

    run(program)


def test_a_sync_response_older_than_the_session_timeout_does_not_confirm_the_session() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def late(call: RequestInfo, serve: Serve) -> Response | None:
            answer = await serve(call.request)
            await asyncio.sleep(5)
            return answer

        cluster.faults.intercept(SyncGroupRequest, late, times=1)
        silence = cluster.faults.drop(HeartbeatRequest)
        async with subscribed(options) as consumer:
            assert await consumer.poll(7000) == []
            assert UNCONFIRMED in str(consumer.partition_state(FIRST))
            silence.remove()
            assert await consumer.poll(7000)

    run(program)
