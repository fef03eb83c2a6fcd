"""What producers promise about time, under one fault each, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Client, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, DeadlineError, KafkaError, UnknownTopicError
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.partitioner import key_hash
from aiokproto.producer.queue import TopicQueues
from aiokproto.simulation import Link, Simulation
from tests.simulation.environment import TURNS_A_SECOND, stored_records

Program = Callable[[Simulation, Cluster, Producer], Awaitable[None]]

SLACK = 0.1
"""Seconds that a call may take beyond its deadline."""


def run(program: Program, *, brokers: int = 3, **options: object) -> Simulation:
    """Run a program with a cluster, whose topic t has a partition led by each broker, and a producer."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(brokers) as cluster:
            await cluster.create_topic("t", brokers, replication=1)
            given: dict[str, object] = {"bootstrap_servers": cluster.bootstrap_servers, **options}
            producer = Producer(**given)  # type: ignore[arg-type]
            await producer.start()
            try:
                for partition in range(brokers):
                    await producer.send("t", b"first", partition=partition)
                await program(simulation, cluster, producer)
            finally:
                try:
                    await producer.close(0)
                except KafkaError:
                    pass

    simulation.run(main())
    return simulation


def links(simulation: Simulation, cluster: Cluster, partition: int) -> list[Link]:
    """Return the links to a partition's leader."""
    leader = cluster.leader("t", partition)
    port = int(cluster.bootstrap_servers.split(",")[leader].rpartition(":")[2])
    return simulation.network.links(server=("127.0.0.1", port))


def test_a_silent_broker_does_not_delay_others() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for link in links(simulation, cluster, 0):
            link.silence()
        waiting = [await producer.post("t", b"%d" % number, partition=0) for number in range(10)]
        began = simulation.time()
        for number in range(100):
            await producer.send("t", b"%d" % number, partition=1 + number % 2)
        assert simulation.time() - began < 1
        assert not any(delivery.done() for delivery in waiting)

    run(program, linger_ms=0)


@pytest.mark.parametrize("timeout_ms", [0, 500, 3000])
def test_close_keeps_its_timeout_with_a_full_socket(timeout_ms: float) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for link in simulation.network.links():
            link.silence()
        for number in range(1000):
            await producer.post("t", bytes(10_000), partition=number % 3)
        began = simulation.time()
        with pytest.raises(DeadlineError, match=r"closed with 1000 records \(t-"):
            await producer.close(timeout_ms)
        assert simulation.time() - began < timeout_ms / 1000 + SLACK

    run(program, linger_ms=0)


@pytest.mark.parametrize(("timeout_ms", "least"), [(700, 0.7), (None, 5.0)])
def test_leaving_the_block_takes_as_long_as_the_option_says(timeout_ms: float | None, least: float) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for link in simulation.network.links():
            link.silence()
        await producer.post("t", b"lost")
        began = simulation.time()
        with pytest.raises(DeadlineError, match="1 record"):
            await producer.close()
        # If the option isn't given, it takes as long as records may take. Then the connections may flush their buffers.
        assert least <= simulation.time() - began < least + (SLACK if timeout_ms else 6)

    run(program, close_timeout_ms=timeout_ms, delivery_timeout_ms=5000)


def test_close_says_once_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for link in links(simulation, cluster, 0):
            link.silence()
        await producer.post("t", b"lost", partition=0)
        with caplog.at_level(logging.WARNING, "aiokproto.producer"), pytest.raises(DeadlineError):
            await producer.close(10_000)
        said = [record.message for record in caplog.records if "closing" in record.message]
        assert said == ["closing the producer waits for 1 record (t-0: 1)"]

    run(program)


def test_batches_expire_while_all_compression_threads_are_busy() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        simulation.threads.hold()
        stuck = await producer.post("t", bytes(100_000), partition=0)
        began = simulation.time()
        await producer.send("t", b"small", partition=0 + 1)
        assert simulation.time() - began < 1
        with pytest.raises(DeadlineError, match="it is being compressed"):
            await stuck
        assert 2 <= simulation.time() - began < 2 + SLACK
        simulation.threads.release()
        await producer.send("t", bytes(100_000), partition=0)

    run(program, compression_type="lz4", delivery_timeout_ms=2000, linger_ms=0)


def test_waiting_for_a_producer_id_does_not_spin() -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            with cluster.faults.delay(InitProducerIdRequest, 50):
                async with Producer(bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=60_000) as producer:
                    await producer.send("t", b"x")

    simulation.run(main())
    assert simulation.time() > 50
    assert simulation.loop.turns < 500 + TURNS_A_SECOND * 50


def test_requests_that_fail_together_count_as_one_failure() -> None:
    """The next attempt must not be delayed as after many failures."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.delay(ProduceRequest, 1.0):
            waiting = [await producer.post("t", bytes(1000), partition=0) for _ in range(20)]
            await asyncio.sleep(0.5)
        for link in links(simulation, cluster, 0):
            link.reset()
        began = simulation.time()
        for delivery in waiting:
            await delivery
        # There is one backoff to reconnect, and one of the sink.
        assert simulation.time() - began < 0.5

    run(program, linger_ms=0, batch_size=1000)


def test_order_is_kept_by_a_broker_that_forgets_producers() -> None:
    """A broker that doesn't know a producer accepts any first sequence number, even the second batch's."""
    simulation = Simulation(1)

    async def main() -> list[bytes | None]:
        # Kafka's brokers look for expired producers every ten minutes, and so does the embedded one.
        async with Cluster(1, config={"producer.id.expiration.ms": 60_000}) as cluster:
            await cluster.create_topic("t", 1)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
                for number in range(5):
                    await producer.send("t", b"%d" % number)
                await asyncio.sleep(3600)
                cluster.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
                waiting = []
                for number in range(5, 10):
                    waiting.append(await producer.post("t", b"%d" % number))
                    await asyncio.sleep(0)
                for delivery in waiting:
                    await delivery
            return [value for _, value in stored_records(cluster, "t", 0)]

    assert simulation.run(main()) == [b"%d" % number for number in range(10)]


def test_topics_that_are_not_written_to_leave_the_metadata_and_come_back() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for number in range(20):
            await cluster.create_topic(f"idle-{number}", 1)
            await producer.send(f"idle-{number}", b"first")
        for _ in range(100):
            await producer.send("t", b"x")
            await asyncio.sleep(10)
        assert set(producer._cluster.snapshot.topics) == {"t"}
        for number in range(20):
            assert (await producer.send(f"idle-{number}", b"second")).offset == 1
        assert [value for _, value in stored_records(cluster, "idle-7", 0)] == [b"first", b"second"]

    run(program)


def test_send_nowait_to_a_topic_that_has_left_the_metadata() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await asyncio.sleep(60)
        assert "t" not in producer._cluster.snapshot.topics
        began = simulation.time()
        assert (await producer.try_post("t", b"second", partition=0)).offset == 1
        assert simulation.time() - began < 1

    run(program, metadata_max_idle_ms=10_000, metadata_max_age_ms=5000)


def test_calls_that_wait_for_one_topic_process_its_metadata_once(monkeypatch: pytest.MonkeyPatch) -> None:
    updates = 0
    real = Accumulator.update

    def counting(accumulator: Accumulator, *args: Any, **options: Any) -> TopicQueues:
        nonlocal updates
        updates += 1
        return real(accumulator, *args, **options)

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("new", 10)
        monkeypatch.setattr(Accumulator, "update", counting)
        await asyncio.gather(*(producer.send("new", b"x", partition=0) for _ in range(100)))
        assert updates < 10

    run(program)


def test_many_records_do_not_delay_other_calls() -> None:
    """They count as many calls, one after the other. Their own order stays, and other calls have their turn between
    them."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await producer.send("t", b"first", partition=0)
        cluster.faults.delay(ProduceRequest, 0.1)
        values = [b"%03d" % number + bytes(97) for number in range(100)]
        many = asyncio.create_task(producer.send_many("t", values, partition=0))
        await asyncio.sleep(1)
        began = simulation.time()
        await producer.send("t", b"other", partition=0)
        assert simulation.time() - began < 1
        assert not many.done()
        await many
        stored = [value for _, value in stored_records(cluster, "t", 0)]
        assert stored.index(b"other") < len(stored) - 1
        assert [value for value in stored if value in values] == values

    run(program, linger_ms=0, batch_size=300, buffer_memory=1000, max_request_size=500)


def test_order_is_kept_in_a_topic_that_was_created_again() -> None:
    """The producer learns about it before it writes."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        await recreate(cluster, 1)
        await asyncio.sleep(20)
        cluster.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
        waiting = []
        for number in range(5):
            waiting.append(await producer.post("t", b"%d" % number))
            await asyncio.sleep(0)
        for delivery in waiting:
            await delivery
        assert [value for _, value in stored_records(cluster, "t", 0)] == [b"%d" % number for number in range(5)]

    run(program, linger_ms=0, metadata_max_age_ms=5000, brokers=1)


async def recreate(cluster: Cluster, partitions: int) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        await client.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
    await cluster.create_topic("t", partitions)


@pytest.mark.parametrize(
    "task", ["Sender._follow_metadata", "metadata", "Sink._connect_and_send", "Sender._acquire_producer_id"]
)
def test_a_cancelled_internal_task_is_raised_from_every_call(task: str) -> None:
    """This holds for each task, however it was cancelled: nothing waits forever."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            await producer.start()
            with (
                cluster.faults.delay(InitProducerIdRequest, 1.0),
                cluster.faults.delay(ProduceRequest, 1.0),
            ):
                sending = asyncio.create_task(producer.send("t", b"x"))
                while not (found := [each for each in asyncio.all_tasks() if task in each.get_name()]):
                    await asyncio.sleep(0.01)
                for each in found:
                    each.cancel()
                with pytest.raises(ClientClosedError, match="cancelled"):
                    await sending
            for call in (producer.send("t", b"y"), producer.post("t", b"y"), producer.flush()):
                with pytest.raises(ClientClosedError, match="cancelled"):
                    await call
            began = simulation.time()
            await producer.close()
            assert simulation.time() - began < 1

    simulation.run(main())


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_topic_that_is_created_again_is_a_new_one(partitions: int) -> None:
    """The new topic has other partitions, and its logs don't have the producer's state."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for number in range(10):
            await producer.send("t", b"old", key=b"%d" % number)
        await recreate(cluster, partitions)
        # The producer notices with its first record, which may be for a partition that no longer exists.
        if partitions < 3:
            with pytest.raises(UnknownTopicError, match=r"t-2.*created again with fewer partitions"):
                await producer.send("t", b"-1", key=b"k")
        await producer.send("t", b"0", key=b"k")
        cluster.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
        waiting = [await producer.post("t", b"%d" % number, key=b"k") for number in range(1, 100)]
        found = [await delivery for delivery in waiting]
        (partition,) = {one.partition for one in found}
        assert partition == key_hash(b"k") % partitions
        assert [value for _, value in stored_records(cluster, "t", partition)] == [b"%d" % n for n in range(100)]

    run(program, linger_ms=0, batch_size=100)


def test_an_unclosed_producer_is_a_resource_warning() -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1000)
            await producer.start()
            await producer.post("t", b"unsent")

    simulation.run(main())
    with pytest.warns(ResourceWarning, match="unclosed Producer, 1 record unsent"):
        gc.collect()
