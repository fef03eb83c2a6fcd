"""Topics that are deleted or created again, and brokers that don't answer: the effects on readers of other
partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, OffsetOutOfRangeError, UnknownTopicError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition

Program = Callable[[Simulation, Cluster, Producer], Awaitable[None]]


def run(program: Program, brokers: int = 1) -> None:
    """Run a program with a cluster, and a producer."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(brokers) as cluster, Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await program(simulation, cluster, producer)

    simulation.run(main())


async def delete(cluster: Cluster, topic: str) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        await client.request(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), max_version=5)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_deleted_topic_does_not_starve_another(group_id: str | None) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for topic in ("healthy", "deleted"):
            await cluster.create_topic(topic, 1)
            await producer.send(topic, b"first")
        consumer = Consumer(
            "healthy",
            "deleted",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
        )
        await consumer.start()
        assert {(await anext(consumer)).topic for _ in range(2)} == {"healthy", "deleted"}
        await delete(cluster, "deleted")
        await asyncio.sleep(8)
        for number in range(5):
            await producer.send("healthy", b"%d" % number)
        got, errors = [], []
        for _ in range(30):
            try:
                got += [record.value for record in await consumer.poll(500, 1)]
            except UnknownTopicError as error:
                errors.append(error)
        assert got == [b"%d" % number for number in range(5)]
        assert errors, "the user hears of it"
        assert len(errors) < 15, "and is not kept from reading by it"
        began = simulation.time()
        if group_id:
            healthy = TopicPartition("healthy", 0)
            deleted = TopicPartition("deleted", 0)
            result = await consumer.commit({healthy: 6, deleted: 1})
            assert (list(result.committed), result.refused) == ([healthy], [deleted])
            assert isinstance(result.outcomes[deleted].error, UnknownTopicError)
            assert (await consumer.committed(healthy))[healthy].offset == 6  # type: ignore[union-attr]
        await consumer.close()
        assert simulation.time() - began < 3

    run(program)


@pytest.mark.parametrize("reset", ["earliest", "none"])
@pytest.mark.parametrize("count", [5, 20])
def test_a_topic_created_again_is_read_by_auto_offset_reset(reset: Any, count: int) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("t", 1)
        partition = TopicPartition("t", 0)
        consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset=reset)
        consumer.assign(partition)
        async with consumer:
            consumer.seek(partition, 0)
            for number in range(10):
                await producer.send("t", b"old%d" % number)
            for _ in range(10):
                await anext(consumer)
            await delete(cluster, "t")
            await cluster.create_topic("t", 1)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as other:
                for number in range(count):
                    await other.send("t", b"new%d" % number)
            if reset == "none":
                with pytest.raises(OffsetOutOfRangeError, match="created again"):
                    await asyncio.wait_for(anext(consumer), 10)
            else:
                got = [(await asyncio.wait_for(anext(consumer), 10)).value for _ in range(count)]
                assert got == [b"new%d" % number for number in range(count)]

    run(program)


def test_a_topic_created_again_long_after_is_read_again() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("t", 1)
        consumer = Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", metadata_max_age_ms=1000
        )
        consumer.assign(("t", 0))
        async with consumer:
            await producer.send("t", b"old")
            await anext(consumer)
            await delete(cluster, "t")
            with pytest.raises(UnknownTopicError):
                await asyncio.wait_for(anext(consumer), 20)
            await cluster.create_topic("t", 1)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as other:
                await other.send("t", b"new")
            await asyncio.sleep(5)
            assert (await asyncio.wait_for(anext(consumer), 10)).value == b"new"

    run(program)


def test_a_group_waits_for_offsets_that_are_part_of_an_open_transaction() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("t", 1)
        for number in range(10):
            await producer.send("t", b"%d" % number)
        async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            found = await client.request(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
            ids: dict[str, Any] = {
                "transactional_id": "x",
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
            }
            await client.request(AddOffsetsToTxnRequest(group_id="g", **ids), max_version=3)
            offset = TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=10, committed_leader_epoch=-1, committed_metadata=""
            )
            topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[offset])]
            await client.request(TxnOffsetCommitRequest(group_id="g", topics=topics, **ids), key="g", max_version=3)
            async with Consumer(
                "t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            ) as consumer:
                assert await consumer.poll(3000) == []
                await client.request(EndTxnRequest(committed=True, **ids), max_version=3)
                await producer.send("t", b"after")
                assert (await asyncio.wait_for(anext(consumer), 5)).offset == 10

    run(program)


def test_a_silent_broker_does_not_delay_the_first_record_of_another() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("t", 3, replication=1)
        for number in range(3):
            await producer.send("t", b"x", partition=number)
        silent = cluster.leader("t", 0)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", request_timeout_ms=8000
        ) as consumer:
            consumer.assign(*(("t", number) for number in range(3)))
            for _ in range(3):
                await anext(consumer)
            port = int(cluster.bootstrap_servers.split(",")[silent].rpartition(":")[2])
            for link in simulation.network.links(server=("127.0.0.1", port)):
                link.silence()
            consumer.seek_to_beginning()
            began = simulation.time()
            got = {(await asyncio.wait_for(anext(consumer), 2)).partition for _ in range(2)}
            assert got == {1, 2}
            consumer.seek_to_beginning(("t", 1))
            assert (await asyncio.wait_for(anext(consumer), 2)).partition == 1
            assert simulation.time() - began < 2

    run(program, brokers=3)


@pytest.mark.parametrize("problem", ["is cut off", "is silent", "says that it is no replica"])
def test_a_preferred_follower_that_does_not_serve_is_left_for_the_leader(problem: str) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("t", 1, replication=2)
        leader = cluster.leader("t", 0)

        async def point(call: Any, serve: Any) -> Any:
            answer = await serve(call.request)
            if call.request.rack_id:
                for topic in answer.responses:
                    for data in topic.partitions:
                        data.preferred_read_replica, data.records = 1 - leader, None
            return answer

        cluster.faults.intercept(FetchRequest, point, node=leader)
        port = int(cluster.bootstrap_servers.split(",")[1 - leader].rpartition(":")[2])
        for number in range(3):
            await producer.send("t", b"%d" % number)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            client_rack="here",
            request_timeout_ms=3000,
        ) as consumer:
            link = simulation.network.link("client", ("127.0.0.1", port))
            if problem == "is cut off":
                link.cut()
            elif problem == "is silent":
                link.silence()
            consumer.assign(("t", 0))
            got = [(await asyncio.wait_for(anext(consumer), 8)).offset for _ in range(3)]
            assert got == [0, 1, 2]

    run(program, brokers=2)


def test_a_topic_whose_committed_offset_is_refused_does_not_delay_others() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for name in ("allowed", "denied"):
            await cluster.create_topic(name, 1)
            await producer.send(name, b"x")

        async def deny(call: RequestInfo, serve: Serve) -> Response | None:
            answer: Any = await serve(call.request)
            for topic in answer.groups[0].topics:
                if "denied" in (topic.name, call.name_of(topic.topic_id)):
                    topic.partitions[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return cast("Response | None", answer)

        cluster.faults.intercept(OffsetFetchRequest, deny)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(("allowed", 0), ("denied", 0))
            for _ in range(2):
                with pytest.raises(AuthorizationError, match="denied-0"):
                    await consumer.poll(2000)
                await asyncio.sleep(1)
            assert [record.topic for record in await consumer.poll(2000)] == ["allowed"]

    run(program)
