"""A consumer that cannot read logs the reason, but a consumer at the end of the log doesn't."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from aiokproto.consumer import DeadLetterTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, DeadlineError
from aiokproto.observe.health import HealthStatus
from aiokproto.simulation import Simulation
from aiokproto.types import OffsetAndMetadata, Record

Program = Callable[[Simulation, Cluster, Consumer], Awaitable[None]]


def warnings(
    program: Program,
    caplog: pytest.LogCaptureFixture,
    group: str | None = None,
    brokers: int = 1,
    **options: Any,
) -> list[str]:
    """Return the warnings of a consumer while a program runs."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(brokers) as cluster:
            await cluster.create_topic("t", partitions=2, replication=brokers)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send("t", b"x", partition=0)
            given: dict[str, Any] = {"auto_offset_reset": "earliest", "request_timeout_ms": 3000, **options}
            consumer = Consumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id=group, **given)
            await consumer.start()
            try:
                await program(simulation, cluster, consumer)
            finally:
                await consumer.close(1000)

    with caplog.at_level(logging.WARNING, "aiokproto.consumer"):
        simulation.run(main())
    return [record.getMessage() for record in caplog.records if "no record in" in record.getMessage()]


async def wait_in_vain(consumer: Consumer, seconds: float) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(anext(consumer), seconds)


def test_missing_brokers_are_logged_periodically(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await cluster.stop_broker(0)
        await wait_in_vain(consumer, 300)
        await cluster.start_broker(0)

    said = warnings(program, caplog)
    assert 5 <= len(said) <= 25
    assert all("2 of 2 partitions" in text for text in said)
    assert any("127.0.0.1" in text or "leader" in text for text in said)


def test_a_silent_broker_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        for link in simulation.network.links():
            link.silence()
        await wait_in_vain(consumer, 12)

    assert "broker 0" in warnings(program, caplog)[0]


def test_a_position_that_cannot_be_found(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        with cluster.faults.drop(ListOffsetsRequest, "response"):
            consumer.seek_to_beginning()
            await wait_in_vain(consumer, 12)

    assert "looking up the start position" in warnings(program, caplog)[0]


def test_a_group_that_cannot_be_joined(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        with cluster.faults.drop(FindCoordinatorRequest, "response"):
            await wait_in_vain(consumer, 12)

    said = warnings(program, caplog, group="g")
    assert said
    assert "group 'g'" in said[0]


def test_polling_in_vain_is_waiting_too(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await cluster.stop_broker(0)
        for _ in range(15):
            assert await consumer.poll(1000) == []
        await cluster.start_broker(0)

    assert warnings(program, caplog)


@pytest.mark.parametrize("group", [None, "g"])
def test_a_topic_without_new_records_is_not_logged(caplog: pytest.LogCaptureFixture, group: str | None) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await wait_in_vain(consumer, 200)

    assert warnings(program, caplog, group) == []


def test_a_consumer_that_is_not_polled_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await cluster.stop_broker(0)
        await asyncio.sleep(100)
        await cluster.start_broker(0)

    assert warnings(program, caplog) == []


def test_an_open_transaction_is_named_with_partition_and_offset(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="x")
        async with producer, producer.transaction() as txn:
            await txn.send("t", b"open", partition=0)
            await wait_in_vain(consumer, 50)

    said = warnings(program, caplog, isolation_level="read_committed")
    assert 1 <= len(said) <= 3
    assert "1 of 2 partitions: t-0 has an open transaction from offset 1 on" in said[0]
    assert "the log ends at 2" in said[0]


def test_paused_partitions_with_records_are_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        consumer.pause()
        await wait_in_vain(consumer, 12)

    assert "2 of 2 partitions: paused by the application" in warnings(program, caplog)[0]


def test_paused_partitions_at_their_end_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await asyncio.sleep(1)
        consumer.pause()
        await wait_in_vain(consumer, 50)

    assert warnings(program, caplog) == []


def test_a_broker_that_does_not_lead_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        with cluster.faults.fail(FetchRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER):
            await wait_in_vain(consumer, 12)

    assert "NOT_LEADER_OR_FOLLOWER" in warnings(program, caplog)[0]


def test_a_position_that_cannot_be_validated_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        record = await anext(consumer)
        with cluster.faults.fail(OffsetForLeaderEpochRequest, ErrorCode.UNKNOWN_LEADER_EPOCH):
            consumer.seek(("t", 0), OffsetAndMetadata(0, "", record.leader_epoch))
            await wait_in_vain(consumer, 12)

    assert "checking that the log still has the position" in warnings(program, caplog)[0]


def test_a_member_without_partitions_learns_why(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"}
        others = [Consumer("t", **options) for _ in range(2)]
        for other in others:
            await other.start()
        # One of three members gets none of the two partitions. The same watch runs in each of them.
        await asyncio.gather(*(wait_in_vain(member, 30) for member in (consumer, *others)))
        for other in others:
            await other.close(1000)

    assert any(
        "no partition to this member yet: other members have not given theirs up" in text
        for text in warnings(program, caplog, group="g")
    )


def test_a_rebalance_that_does_not_end_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        with cluster.faults.drop(JoinGroupRequest, "response"):
            await wait_in_vain(consumer, 12)

    assert "joining" in warnings(program, caplog, group="g")[0]


def test_a_member_that_waits_for_a_busy_one_learns_that_the_group_rebalances(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"}
        async with Consumer("t", **options) as second:
            await wait_in_vain(second, 12)
            assert "the group rebalances, and its coordinator waits for the other members" in str(second.health())
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(consumer), 1)

    found = warnings(program, caplog, group="g", partition_assignment_strategy="range")
    assert any("the group rebalances, and its coordinator waits for the other members" in each for each in found)
    assert "MEMBER_ID_REQUIRED" not in "".join(found)


def test_partitions_that_start_at_the_end_of_their_log_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await wait_in_vain(consumer, 100)

    assert warnings(program, caplog, auto_offset_reset="latest") == []


def test_a_full_buffer_of_a_paused_partition_keeps_no_other_from_being_read(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for _ in range(20):
                await producer.send("t", bytes(1000), partition=0)
            await consumer.poll(1000, 1)
            consumer.pause(("t", 0))
            await asyncio.sleep(3)
            await producer.send("t", b"other", partition=1)
        assert (await asyncio.wait_for(anext(consumer), 5)).value == b"other"
        await wait_in_vain(consumer, 12)

    limits: dict[str, Any] = {"fetch_buffer_bytes": 2000, "max_partition_fetch_bytes": 1000}
    assert "1 of 2 partitions: paused by the application" in warnings(program, caplog, **limits)[0]


def test_a_missing_permission_is_raised_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        with (
            cluster.faults.fail(FetchRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            pytest.raises(AuthorizationError, match="t-"),
        ):
            await asyncio.wait_for(anext(consumer), 12)

    assert warnings(program, caplog) == []


async def _never(raw: bytes) -> bytes:
    await asyncio.Event().wait()
    return raw


def test_a_deserializer_that_does_not_return_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        waiting = asyncio.create_task(anext(consumer))
        await asyncio.sleep(12)
        assert consumer.health().status is HealthStatus.DEGRADED
        assert "waits for value_deserializer, for 1" in str(consumer.health())
        with pytest.raises(DeadlineError, match="value_deserializer did not return for the record at offset 0"):
            await waiting
        assert consumer.health().status is HealthStatus.OK

    said = warnings(program, caplog, value_deserializer=_never, default_api_timeout_ms=60_000)
    assert 1 <= len(said) <= 3
    assert "t-0: the record at offset 0 waits for value_deserializer" in said[0]


def test_a_dead_letter_that_is_not_acknowledged_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await wait_in_vain(consumer, 12)

    class Later:
        """A producer that acknowledges nothing."""

        async def post_bytes(self, *_: object, **__: object) -> Awaitable[Any]:
            return asyncio.get_running_loop().create_future()

    said = warnings(program, caplog, value_deserializer=json.loads, on_undecodable=DeadLetterTopic("dead", Later()))
    assert "t-0: the record at offset 0 waits for its dead letter to be acknowledged" in said[0]


def test_a_deserializer_that_hangs_is_named_when_the_member_leaves_its_group(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        async def handle(record: Record) -> None: ...

        with pytest.raises(DeadlineError, match="value_deserializer did not return"):
            await consumer.run(handle)

    options: dict[str, Any] = {"max_poll_interval_ms": 10_000, "default_api_timeout_ms": 60_000}
    warnings(program, caplog, "g", value_deserializer=_never, **options)
    (left,) = (text for text in caplog.messages if "leaving group g" in text)
    assert "(max_poll_interval_ms): t-0: the record at offset 0 waits for value_deserializer" in left
