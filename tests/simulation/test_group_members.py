"""The guarantees of a group member when a fault happens at the worst moment, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.application.calls import CallbackError
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.leave_group import LeaveGroupRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.schema import Request, Response
from aiokproto.errors import AuthenticationError, ClientClosedError, CommitError, DeadlineError, FencedError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.environment import until
from tests.simulation.members import Events, member_of, run, subscribed


def test_a_commit_in_flight_during_a_rebalance_is_repeated_for_partitions_still_owned() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"enable_auto_commit": False, "partition_assignment_strategy": "cooperative-sticky"}
        async with subscribed(options) as consumer:
            await consumer.poll(5000)
            await consumer.poll(200)
            kept = TopicPartition("t", 0)
            cluster.faults.delay(OffsetCommitRequest, 4.0, times=1)
            commit = asyncio.create_task(consumer.commit({kept: 1}))
            await asyncio.sleep(0.1)
            async with subscribed(options):
                for _ in range(20):
                    await consumer.poll(100)
                assert consumer.assignment() == {kept}
                await commit
                assert (await consumer.committed(kept))[kept].offset == 1  # type: ignore[union-attr]

    run(program)


def test_partitions_of_a_member_removed_while_it_processes_a_record_are_lost() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "range"}
        events = Events()
        async with subscribed(options, **events.listeners()) as zombie:
            await anext(zombie)
            member = member_of(cluster)
            async with subscribed(options):
                # The zombie must give up everything, and still has an unfinished record.
                await asyncio.sleep(0.6)
                cluster.expire_session("g", member)
                await asyncio.sleep(0.8)
                await asyncio.wait({asyncio.ensure_future(zombie.poll(2000))})
                assert events.seen[:2] == [("assigned", 2), ("lost", 2)]
                assert ("lost", 0) not in events.seen

    run(program)


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError("a bug"), ValueError), (asyncio.CancelledError(), CallbackError)], ids=repr
)
def test_a_member_leaves_the_group_though_its_callback_raises(error: BaseException, raised: type[Exception]) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        def fail(partitions: list[TopicPartition]) -> None:
            raise error

        left = cluster.faults.watch(LeaveGroupRequest)
        consumer = Consumer(**options)
        consumer.subscribe("t", on_revoked=fail)
        await consumer.start()
        await anext(consumer)
        with pytest.raises(raised):
            await consumer.close()
        assert left.count == 1

    run(program)


@pytest.mark.parametrize("noticed", ["by a heartbeat", "by the last commit"])
def test_partitions_of_a_fenced_static_member_are_lost(noticed: str, caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        options |= {"group_instance_id": "i", "auto_commit_interval_ms": 60_000}
        interval: dict[str, Any] = {"heartbeat_interval_ms": 200 if noticed == "by a heartbeat" else 2900}
        former = Consumer(**options | interval)
        former.subscribe("t", **events.listeners())
        await former.start()
        await anext(former)
        commits = cluster.faults.watch(OffsetCommitRequest)
        async with subscribed(options) as successor:
            await anext(successor)
            if noticed == "by a heartbeat":
                await asyncio.sleep(1)
                with pytest.raises(FencedError):
                    await former.poll(1000)
                assert not former.assignment()
            await former.close()
            assert events.seen == [("assigned", 2), ("lost", 2)]
            assert commits.count == (0 if noticed == "by a heartbeat" else 1)
            assert len(successor.assignment()) == 2
        assert ("closing" in caplog.text) is (noticed == "by the last commit")

    run(program)


def test_a_member_without_a_generation_has_no_identity_for_transactions() -> None:
    """The coordinator wouldn't check it, and would take offsets of partitions that others own."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        rule = cluster.faults.delay(JoinGroupRequest, 1.0)
        async with subscribed(options) as consumer:
            with pytest.raises(CommitError, match="in no generation of its group"):
                consumer.group_metadata()
            rule.remove()
            assert await consumer.poll(5000)
            assert consumer.group_metadata().generation > 0

    run(program)


@pytest.mark.parametrize("later", range(8))
@pytest.mark.parametrize("held", [JoinGroupRequest, SyncGroupRequest])
def test_members_that_close_one_after_the_other_commit_what_they_have_processed(
    held: type[Request[Any]], later: int
) -> None:
    """The second consumer's last commit collides with the rebalance that the first has caused."""

    async def answer_late(info: RequestInfo, serve: Serve) -> Response | None:
        response = await serve(info.request)
        await asyncio.sleep(0.1)
        return response

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "cooperative-sticky", "auto_commit_interval_ms": 60_000}
        members = [Consumer("t", **options) for _ in range(2)]
        for member in members:
            await member.start()
        reading = [asyncio.create_task(_consume(member)) for member in members]
        await until(lambda: [len(member.assignment()) for member in members] == [1, 1])
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for partition in range(2):
                await producer.send("t", b"new", partition=partition)
        await asyncio.sleep(1)
        cluster.faults.intercept(held, answer_late)
        await members[0].close()
        await asyncio.sleep(0.05 * later)
        await members[1].close()
        await asyncio.gather(*reading, return_exceptions=True)
        async with Consumer(**options) as other:
            found = await other.committed(("t", 0), ("t", 1))
            assert [position and position.offset for position in found.values()] == [6, 6]

    run(program)


async def _consume(consumer: Consumer) -> None:
    async for _record in consumer:
        pass


def test_partitions_are_revoked_though_the_last_commit_fails() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        consumer = Consumer(**options)
        consumer.subscribe("t", **events.listeners())
        await consumer.start()
        await anext(consumer)
        cluster.faults.drop(OffsetCommitRequest)
        await consumer.close(4000)
        assert events.seen == [("assigned", 2), ("revoked", 2)]

    run(program)


def test_a_commit_after_one_without_a_response_ends_at_its_deadline() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "auto_commit_interval_ms": 300}) as consumer:
            silence = cluster.faults.drop(OffsetCommitRequest)
            await anext(consumer)
            await anext(consumer)
            await asyncio.sleep(0.6)
            began = simulation.time()
            with pytest.raises(DeadlineError):
                await consumer.commit({TopicPartition("t", 0): 1}, timeout_ms=500)
            assert simulation.time() - began < 0.6
            silence.remove()

    run(program)


def test_a_heartbeat_without_authentication_ends_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed(options) as consumer:
            await anext(consumer)
            send = consumer._engine.cluster.send

            async def refused(request: Any, *args: Any, **kwargs: Any) -> Any:
                if isinstance(request, HeartbeatRequest):
                    raise AuthenticationError("the certificate has expired")
                return await send(request, *args, **kwargs)

            monkeypatch.setattr(consumer._engine.cluster, "send", refused)
            await asyncio.sleep(1)
            with pytest.raises(AuthenticationError, match="expired"):
                await anext(consumer)

    run(program)


@pytest.mark.parametrize(
    "name", ["aiokproto-consumer-fetch", "aiokproto-consumer-locate", "aiokproto-consumer-group", "aiokproto-heartbeat"]
)
def test_a_cancelled_task_of_the_consumer_is_raised_from_every_call(name: str) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed(options) as consumer:
            await anext(consumer)
            (task,) = [task for task in asyncio.all_tasks() if task.get_name() == name]
            task.cancel()
            await asyncio.sleep(1)
            partition = TopicPartition("t", 0)
            for call in (
                lambda: anext(consumer),
                lambda: consumer.poll(1000),
                consumer.commit,
                lambda: consumer.committed(partition),
                lambda: consumer.position(partition),
                lambda: consumer.end_offsets(partition),
            ):
                with pytest.raises(ClientClosedError, match="cancelled"):
                    await asyncio.wait_for(call(), 5)

    run(program)


def test_an_abandoned_join_does_not_fence_a_later_one() -> None:
    """A coordinator that holds a JoinGroup back reads nothing more from its connection, even after the connection's
    end."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        static = {**options, "group_instance_id": "i", "partition_assignment_strategy": "range"}
        options |= {"partition_assignment_strategy": "range"}
        async with subscribed(options) as busy:
            former = Consumer("t", **static)
            await former.start()
            for _ in range(10):
                await asyncio.gather(busy.poll(100), former.poll(100))
            assert len(busy.assignment()) == len(former.assignment()) == 1
            busy.seek_to_beginning()
            await anext(busy)
            # The coordinator waits for the busy member from here on.
            await cluster.create_topic("u", 1)
            former.subscribe("t", "u")
            await asyncio.sleep(0.5)
            await former.unsubscribe()
            former.subscribe("t")
            await asyncio.sleep(0.5)
            await former.close()
            async with Consumer("t", **static) as back:
                await back.poll(500)
                for _ in range(10):
                    await asyncio.gather(busy.poll(100), back.poll(100))
                assert len(back.assignment()) == 1

    run(program)


def test_a_join_is_abandoned_while_a_heartbeat_is_in_flight() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "session_timeout_ms": 9000}) as consumer:
            while await consumer.poll(500):
                pass
            cluster.faults.delay(HeartbeatRequest, 2.0, times=1)
            await asyncio.sleep(0.5)
            await cluster.create_topic("u", 1)
            consumer.subscribe("t", "u")
            await asyncio.sleep(0.5)
            await consumer.unsubscribe()
            consumer.subscribe("t")
            await consumer.poll(3000)
            assert len(consumer.assignment()) == 2

    run(program)
