"""Single guards of the consumer, each in the schedule that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.codec.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from aiokproto.codec.schema import Response
from aiokproto.consumer import OffsetReset, PartitionStatus, ResetReason
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, ClientClosedError
from aiokproto.simulation import Simulation
from aiokproto.types import OffsetAndMetadata, TopicPartition
from tests.simulation.environment import Environment, until

Program = Callable[[Environment, Consumer], Awaitable[None]]
WHERE = TopicPartition("t", 0)


def run(program: Program, *, partitions: int = 1, records: int = 20, size: int = 1, **options: Any) -> None:
    """Run a program with a consumer of partitions. The first one has ``records`` records of ``size`` bytes."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", partitions)
            environment = Environment(simulation, cluster, "t")
            for _ in range(records):
                environment.append(0, bytes(size))
            given: dict[str, Any] = {"auto_offset_reset": "none", **options}
            consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, **given)
            consumer.assign(*(("t", number) for number in range(partitions)))
            for number in range(partitions):
                consumer.seek(("t", number), 0)
            async with consumer:
                await program(environment, consumer)

    simulation.run(main())


def test_an_error_of_a_fetch_from_before_a_seek_is_ignored() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        received = asyncio.Event()

        async def slow(call: RequestInfo, serve: Serve) -> Response | None:
            request: Any = call.request
            if any(part.fetch_offset == 1000 for topic in request.topics for part in topic.partitions):
                received.set()
                await asyncio.sleep(1.0)
            return await serve(request)

        assert (await anext(consumer)).offset == 0
        environment.cluster.faults.intercept(FetchRequest, slow)
        consumer.seek(WHERE, 1000)
        await received.wait()
        consumer.seek(WHERE, 5)
        assert [(await asyncio.wait_for(anext(consumer), 10)).offset for _ in range(3)] == [5, 6, 7]

    run(program)


def test_fetches_to_a_broker_that_refuses_every_session_have_a_backoff() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        assert (await anext(consumer)).offset == 0
        with environment.cluster.faults.fail(FetchRequest, ErrorCode.FETCH_SESSION_ID_NOT_FOUND) as refused:
            await asyncio.sleep(60)
        assert refused.count < 100
        assert [(await asyncio.wait_for(anext(consumer), 10)).offset for _ in range(3)] == [1, 2, 3]

    run(program)


def test_an_offset_that_was_looked_up_before_a_seek_does_not_count() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        assert (await anext(consumer)).offset == 0
        with environment.cluster.faults.delay(ListOffsetsRequest, 1.0, times=1):
            consumer.seek_to_end(WHERE)
            await asyncio.sleep(0.5)
            consumer.seek_to_beginning(WHERE)
            assert (await asyncio.wait_for(anext(consumer), 10)).offset == 0
        with environment.cluster.faults.delay(ListOffsetsRequest, 1.0, times=1):
            consumer.seek_to_end(WHERE)
            await asyncio.sleep(0.5)
            consumer.seek(WHERE, 7)
            assert (await asyncio.wait_for(anext(consumer), 10)).offset == 7
            # The response comes when the partition has a position again.
            await asyncio.sleep(2)
            assert [(await asyncio.wait_for(anext(consumer), 10)).offset for _ in range(4)] == [8, 9, 10, 11]

    run(program)


def test_fetching_stops_at_the_buffer_limit_while_the_consumer_is_not_polled() -> None:
    fetched = 0

    async def count(call: RequestInfo, serve: Serve) -> Response | None:
        nonlocal fetched
        answer: Any = await serve(call.request)
        fetched += sum(len(data.records or b"") for topic in answer.responses for data in topic.partitions)
        return answer  # type: ignore[no-any-return]

    async def program(environment: Environment, consumer: Consumer) -> None:
        environment.cluster.faults.intercept(FetchRequest, count)
        assert (await anext(consumer)).offset == 0
        await asyncio.sleep(20)
        # Fetches that were sent before the limit is reached add one partition's limit, and a batch.
        assert fetched < 50_000 + 2 * 20_000 + 5000
        assert [(await asyncio.wait_for(anext(consumer), 5)).offset for _ in range(199)] == list(range(1, 200))

    run(program, records=200, size=3000, fetch_buffer_bytes=50_000, max_partition_fetch_bytes=20_000)


def test_records_that_were_fetched_and_then_lost_are_not_delivered() -> None:
    resets: list[OffsetReset] = []

    async def program(environment: Environment, consumer: Consumer) -> None:
        assert (await anext(consumer)).offset == 0
        await asyncio.sleep(2)
        environment.cluster.diverge_log("t", 0, 10, [b"new"])
        await asyncio.sleep(3)
        records = [await asyncio.wait_for(anext(consumer), 20) for _ in range(10)]
        assert [record.offset for record in records] == list(range(1, 11))
        assert records[-1].value == b"new"

    run(program, auto_offset_reset="earliest", on_offset_reset=resets.append)
    # Nothing that was delivered is lost.
    assert resets == []


def test_what_was_fetched_before_a_reset_is_delivered_first() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        assert (await anext(consumer)).offset == 0
        with environment.cluster.faults.fail(FetchRequest, ErrorCode.OFFSET_OUT_OF_RANGE, topic="t"):
            await asyncio.sleep(5)
            assert [(await asyncio.wait_for(anext(consumer), 1)).offset for _ in range(19)] == list(range(1, 20))
            await until(lambda: resets)

    resets: list[OffsetReset] = []
    run(program, auto_offset_reset="latest", on_offset_reset=resets.append)
    assert (resets[0].reason, resets[0].position) == (ResetReason.OUT_OF_RANGE, 20)


def test_a_partition_that_the_broker_refuses_is_fetched_again_after_a_pause() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        assert (await anext(consumer)).offset == 0
        with environment.cluster.faults.fail(FetchRequest, ErrorCode.KAFKA_STORAGE_ERROR, topic="t") as refused:
            await asyncio.sleep(20)
        assert 10 < refused.count < 100
        assert [(await asyncio.wait_for(anext(consumer), 10)).offset for _ in range(3)] == [1, 2, 3]

    run(program)


def test_a_position_whose_epoch_no_leader_knows_is_reset() -> None:
    """The position is like one in a topic that was deleted and created again. The metadata may be older at first."""
    resets: list[OffsetReset] = []

    async def program(environment: Environment, consumer: Consumer) -> None:
        consumer.seek(WHERE, OffsetAndMetadata(15, "", 99))
        assert (await asyncio.wait_for(anext(consumer), 60)).offset == 0

    run(program, auto_offset_reset="earliest", on_offset_reset=resets.append)
    assert [(reset.reason, reset.position, reset.offset) for reset in resets] == [(ResetReason.TRUNCATED, 15, 0)]


def test_a_position_that_no_leader_can_validate_is_not_fetched() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        with environment.cluster.faults.fail(OffsetForLeaderEpochRequest, ErrorCode.UNKNOWN_LEADER_EPOCH):
            consumer.seek(WHERE, OffsetAndMetadata(15, "", 0))
            assert await consumer.poll(30_000) == []
            assert consumer.partition_state(WHERE).status is PartitionStatus.VALIDATING
            assert "UNKNOWN_LEADER_EPOCH" in consumer.partition_state(WHERE).detail
        assert (await asyncio.wait_for(anext(consumer), 60)).offset == 15

    run(program)


def test_a_position_that_may_not_be_validated_fails_its_partition() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        with environment.cluster.faults.fail(OffsetForLeaderEpochRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            consumer.seek(WHERE, OffsetAndMetadata(15, "", 0))
            with pytest.raises(AuthorizationError, match="OffsetForLeaderEpoch of t-0"):
                await consumer.poll(30_000)
        consumer.seek(WHERE, OffsetAndMetadata(15, "", 0))
        assert (await asyncio.wait_for(anext(consumer), 60)).offset == 15

    run(program)


def test_an_error_in_on_offset_reset_ends_the_consumer() -> None:
    def refuse(event: OffsetReset) -> None:
        raise ZeroDivisionError(str(event))

    async def program(environment: Environment, consumer: Consumer) -> None:
        consumer.seek(WHERE, 99)
        with pytest.raises(ClientClosedError, match="the offset is outside the log"):
            await asyncio.wait_for(anext(consumer), 60)

    run(program, auto_offset_reset="earliest", on_offset_reset=refuse)


def test_a_reset_by_duration_continues_at_the_first_record_of_that_time() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        now = environment.cluster._running.state.clock.wall()
        for number, age in enumerate((3 * 3_600_000, 3_000_000, 60_000)):
            environment.append(0, b"%d" % number, now - age)
        consumer.seek(WHERE, 99)
        assert (await asyncio.wait_for(anext(consumer), 60)).value == b"1"

    run(program, records=0, auto_offset_reset="by_duration:PT1H")


@pytest.mark.parametrize("lost", ["request", "response"])
def test_partitions_of_a_lost_fetch_are_requested_again(lost: Literal["request", "response"]) -> None:
    """Either the broker hasn't received the fetch, and its session lacks the changes; or it has counted the fetch."""

    async def program(environment: Environment, consumer: Consumer) -> None:
        consumer.pause(("t", 1))
        assert (await anext(consumer)).offset == 0
        environment.append(1, b"second")
        await asyncio.sleep(2)
        with environment.cluster.faults.drop(FetchRequest, lost, times=1):
            consumer.resume(("t", 1))
            for _ in range(19):
                await anext(consumer)
            assert (await asyncio.wait_for(anext(consumer), 10)).partition == 1

    run(program, partitions=2, request_timeout_ms=1000)


def test_a_failure_to_fetch_committed_offsets_does_not_reset_the_position() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": environment.cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "default_api_timeout_ms": 1000,
            "request_timeout_ms": 500,
        }
        async with Consumer("t", **options) as first:
            await anext(first)
            await first.commit({WHERE: 5})
            first.seek(WHERE, 5)
        dropping = environment.cluster.faults.drop(OffsetFetchRequest)
        async with Consumer("t", **options) as second:
            assert await second.poll(5000) == []
            dropping.remove()
            assert (await asyncio.wait_for(anext(second), 10)).offset == 5

    run(program)


def test_a_retried_commit_does_not_undo_a_later_one() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        options: dict[str, Any] = {"bootstrap_servers": environment.cluster.bootstrap_servers, "group_id": "g"}
        async with Consumer("t", auto_offset_reset="earliest", enable_auto_commit=False, **options) as member:
            await anext(member)
            environment.cluster.faults.fail(OffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=1)
            await asyncio.gather(member.commit({WHERE: 3}), member.commit({WHERE: 7}))
            found = (await member.committed(WHERE))[WHERE]
            assert found is not None
            assert found.offset == 7

    run(program)


def test_on_assigned_can_set_the_first_position() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        options: dict[str, Any] = {"bootstrap_servers": environment.cluster.bootstrap_servers, "group_id": "g"}
        member = Consumer(auto_offset_reset="earliest", **options)

        async def begin(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(2)
            member.seek(WHERE, 5)

        member.subscribe("t", on_assigned=begin)
        async with member:
            assert (await asyncio.wait_for(anext(member), 10)).offset == 5

    run(program)


def test_a_member_commits_only_its_own_partitions() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": environment.cluster.bootstrap_servers,
            "group_id": "g",
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        async with Consumer("t", **options) as one, Consumer("t", **options) as two:
            while len(one.assignment()) != 1 or len(two.assignment()) != 1:
                await asyncio.gather(one.poll(500), two.poll(500))
            [mine], [others] = one.assignment(), two.assignment()
            result = await one.commit({mine: 3, others: 4})
            assert (list(result.committed), result.lost) == ([mine], [others])
            assert f"{others} not committed: not assigned" in str(result.outcomes[others].error)
            found = await two.committed(mine, others)
            assert found[others] is None
            assert found[mine] is not None

    run(program, partitions=2)


def test_partitions_that_were_given_up_are_assigned_again() -> None:
    """The rebalance is cooperative, so the partitions have no owner until another rebalance."""

    async def program(environment: Environment, consumer: Consumer) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": environment.cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "partition_assignment_strategy": "cooperative-sticky",
        }
        async with Consumer("t", **options) as one:
            await one.poll(1000)
            async with Consumer("t", **options) as two:
                began = environment.simulation.time()
                while not two.assignment():
                    await asyncio.gather(one.poll(500), two.poll(500))
                    assert environment.simulation.time() - began < 15

    run(program, partitions=2)
