"""Single guards of the producer, each in the schedule that needs it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.refusal import refuse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DeadlineError
from aiokproto.simulation import Simulation
from tests.simulation.test_producers import links, run
from tests.simulation.world import stored_records

LARGE = 80_000
"""The size of a record that is compressed in a thread (bytes)."""
LONG = bytes(1000)


@pytest.mark.parametrize("acks", ["all", 1])
def test_small_batches_stay_behind_a_large_one_that_is_compressed_in_a_thread(acks: str | int) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for size in (1, LARGE, 1, LARGE, 2, 1):
            waiting = [await producer.post("t", bytes(size), partition=0)]
            await asyncio.sleep(0)
        for _ in range(20):
            waiting += [await producer.post("t", bytes(LARGE), partition=0)]
            await asyncio.sleep(0)
            waiting += [await producer.post("t", b"x", partition=0)]
            await asyncio.sleep(0)
        for delivery in waiting:
            await delivery
        sizes = [len(value or b"") for _, value in stored_records(cluster, "t", 0)]
        assert sizes[1:] == [1, LARGE, 1, LARGE, 2, 1] + [LARGE, 1] * 20
        # The order isn't kept if the broker refuses an overtaken batch, and gets it again.
        assert all(not queue.producer[1] > 0 for queue in producer._accumulator.topics["t"].queues)

    run(program, acks=acks, compression_type="lz4", linger_ms=0, batch_size=1000)


def test_a_broker_that_has_not_answered_gets_no_second_request() -> None:
    """Records that come meanwhile are sent together once it has answered."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 3)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
                with cluster.faults.watch(ProduceRequest) as seen, cluster.faults.delay(ProduceRequest, 0.5):
                    waiting = []
                    for partition in range(3):
                        waiting.append(await producer.post("t", b"x", partition=partition))
                        await asyncio.sleep(0.1)
                    for delivery in waiting:
                        await delivery
                    assert seen.count == 2

    simulation.run(main())


def test_a_broker_that_closes_connections_is_tried_less_and_less_often() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.cut(ProduceRequest) as seen:
            waiting = await producer.post("t", b"x", partition=0)
            await asyncio.sleep(10)
            assert 5 < seen.count < 40
        await waiting

    run(program, linger_ms=0, retry_backoff_ms=100, retry_backoff_max_ms=1000)


def test_nothing_is_sent_to_a_new_leader_without_producer_state_before_the_old_one_has_responded() -> None:
    """A leader after an unclean election accepts any sequence number of a producer whose records it lacks."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        old = cluster.leader("t", 0)
        for link in links(simulation, cluster, 0):
            link.silence()
        waiting = [await producer.post("t", b"0", partition=0)]
        await asyncio.sleep(0.1)
        cluster.diverge_log("t", 0, 0)
        await cluster.move_leader("t", 0, (old + 1) % 3)
        await asyncio.sleep(2)
        waiting += [await producer.post("t", b"%d" % number, partition=0) for number in range(1, 4)]
        await asyncio.sleep(1)
        assert stored_records(cluster, "t", 0) == []
        for link in simulation.network.links():
            link.restore()
        for delivery in waiting:
            await delivery
        assert [value for _, value in stored_records(cluster, "t", 0)] == [b"0", b"1", b"2", b"3"]

    run(program, linger_ms=0, batch_size=100, metadata_max_age_ms=500)


def test_a_failed_batch_does_not_cause_others_to_be_rejected() -> None:
    """The next batches are numbered again before a broker complains about the gap."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        answers = _answers(cluster, {})
        with cluster.faults.drop(ProduceRequest), pytest.raises(DeadlineError):
            await asyncio.wait_for(producer.send("t", b"lost", partition=0), 3)
        for number in range(3):
            await producer.send("t", b"%d" % number, partition=0)
        assert set(answers) == {0}

    run(program, delivery_timeout_ms=1500, request_timeout_ms=1000)


def test_a_batch_rejected_behind_another_does_not_renumber_that_one() -> None:
    """The earlier batch may be in the log. With another number it would be written again."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        _answers(cluster, {1: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 2: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})
        waiting = [await producer.post("t", b"%d" % number, partition=0) for number in range(2)]
        for delivery in waiting:
            await delivery
        assert [value for _, value in stored_records(cluster, "t", 0)] == [b"first", b"0", b"1"]

    run(program, linger_ms=0, batch_size=60)


def test_a_retry_is_in_flight_alone() -> None:
    """The next batch could overtake it at a broker that has lost its state of the producer."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        answers = _answers(cluster, {1: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 3: ErrorCode.NOT_ENOUGH_REPLICAS})
        waiting = [await producer.post("t", b"%d" % number, partition=0) for number in range(2)]
        await waiting[1]
        assert len(answers) == 2
        cluster.diverge_log("t", 0, 0)
        waiting += [await producer.post("t", b"%d" % number, partition=0) for number in range(2, 4)]
        for delivery in waiting:
            await delivery
        assert [value for _, value in stored_records(cluster, "t", 0)] == [b"0", b"2", b"3"]

    run(program, linger_ms=0, batch_size=60)


def _answers(cluster: Cluster, errors: dict[int, ErrorCode]) -> list[int]:
    """Return the list of codes that Produce requests get from now on. Some requests, counted from 1, get an error:
    after they were served if the error says so, otherwise instead."""
    answers: list[int] = []
    count = 0

    async def answer(call: RequestInfo, serve: Serve) -> Response | None:
        nonlocal count
        count += 1
        error = errors.get(count)
        after = error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        response: Any = refuse(call.request, call.version, error) if error and not after else await serve(call.request)
        for topic in response.responses:
            for partition in topic.partition_responses:
                if after:
                    partition.error_code, partition.base_offset = error, -1
                answers.append(partition.error_code)
        return response  # type: ignore[no-any-return]

    cluster.faults.intercept(ProduceRequest, answer)
    return answers


def test_a_call_that_waits_for_a_new_topic_is_not_overtaken_by_a_later_one() -> None:
    """The topic is known in that iteration of the loop, and the call that waited for it hasn't continued yet."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("new", 1)
        client = producer._cluster

        async def come_with_the_metadata() -> None:
            while "new" not in client.snapshot.topics:
                await client.metadata.wait_for_update(client.snapshot.generation)
            await producer.send("new", b"later")

        later = asyncio.create_task(come_with_the_metadata())
        await asyncio.sleep(0)
        await asyncio.gather(producer.send("new", b"first"), later)
        assert [value for _, value in stored_records(cluster, "new", 0)] == [b"first", b"later"]

    run(program, linger_ms=0)


def test_a_call_that_waits_for_memory_is_not_overtaken_by_one_that_needs_none() -> None:
    """The open batch has room for the later record, and not for the earlier one."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.delay(ProduceRequest, 5.0):
            filling = [await producer.post("t", bytes(1500), partition=1) for _ in range(2)]
            opened = await producer.post("t", b"open", partition=0)
            calls = [asyncio.create_task(producer.post("t", value, partition=0)) for value in (LONG, b"short")]
            await asyncio.sleep(1)
            assert not any(call.done() for call in calls)
            for delivery in (opened, *filling, *[await call for call in calls]):
                await delivery
        assert [value for _, value in stored_records(cluster, "t", 0)] == [b"first", b"open", LONG, b"short"]

    run(program, linger_ms=1000, batch_size=2000, buffer_memory=4500)
