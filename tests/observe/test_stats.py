"""Statistics and health of the three clients, on the embedded broker."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto import Broker, Client, Cluster, Consumer, Producer, TopicPartition
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.consumer import PartitionStatus
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DeadlineError, KafkaError
from aiokproto.observe.health import HealthStatus
from tests.observe.waiting import until
from tests.patience import PATIENCE

FLIGHTS = TopicPartition("flights", 0)


async def test_a_client_counts_requests_bytes_and_connections() -> None:
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers, client_id="me") as client:
        before = client.stats()
        await client.metadata()
        after = client.stats()
    assert after.client_id == "me"
    # The bootstrap connection is given up once the brokers are known.
    assert (after.brokers[-1].state, after.brokers[0].state) == ("idle", "connected")
    assert after.brokers[0].address.endswith(
        broker.bootstrap_servers.replace("localhost", "127.0.0.1").split(":")[1] + ")"
    )
    assert after.connections == 1
    assert after.brokers[0].connections[0].channel == "main"
    # ApiVersions, then Metadata.
    assert after.requests - before.requests == 2
    assert after.bytes_sent > before.bytes_sent
    assert after.bytes_received > before.bytes_received
    assert after.brokers[0].latency.count == after.brokers[0].requests == 2
    assert 0 <= after.brokers[0].latency.mean <= after.brokers[0].latency.max
    assert after.in_flight == 0
    assert after.metadata_age is not None
    assert after.metadata_refreshes == 1
    assert client.stats().connections == 0


async def test_a_producer_counts_what_it_holds_and_what_it_has_delivered() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000)
        assert producer.stats().buffered_records == 0, "also before the start"
        async with producer:
            delivery = await producer.post("flights", b"a" * 100)
            await producer.post("flights", b"b" * 100)
            held = producer.stats()
            await producer.flush()
            await delivery
            done = producer.stats()
    assert (held.buffered_records, held.buffered_batches, held.in_flight_batches) == (2, 1, 0)
    assert 200 < held.buffered_bytes < held.buffer_memory
    assert held.oldest_age >= 0
    assert (done.buffered_records, done.buffered_batches, done.buffered_bytes, done.oldest_age) == (0, 0, 0, 0.0)
    assert (done.batches_written, done.records_written, done.batches_failed) == (1, 2, 0)
    assert done.bytes_written > 200
    assert done.latency.count == done.queue_time.count == 1
    assert done.latency.total >= done.queue_time.total


async def test_a_producer_counts_failures_and_retries() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            broker.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
            await producer.send("flights", b"a")
            broker.faults.fail(ProduceRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
            with pytest.raises(KafkaError):
                await producer.send("flights", b"b")
            stats = producer.stats()
    assert (stats.retries, stats.records_written, stats.records_failed, stats.batches_failed) == (1, 1, 1, 1)


async def test_a_consumer_counts_and_shows_its_partitions() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_many("flights", [b"a", b"b", b"c", b"d"])
        consumer = Consumer(
            "flights", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        )
        async with consumer:
            for _ in range(3):
                await asyncio.wait_for(anext(consumer), PATIENCE)
            await consumer.commit()
            stats = consumer.stats()
            await asyncio.wait_for(anext(consumer), PATIENCE)
            before = consumer.stats().waited
            assert await consumer.poll(timeout_ms=100) == []
            # Less by at most the step of the coarsest clock, as timers run early on it.
            assert consumer.stats().waited - before >= 0.05
            consumer.seek(FLIGHTS, 3)
            assert consumer.lags() == {FLIGHTS: 1}
            assert consumer.partition_states().keys() == {FLIGHTS}
        after = consumer.stats()
    partition = stats.partitions[FLIGHTS]
    assert (partition.position, partition.lag, partition.high_watermark) == (3, 1, 4)
    assert (stats.lag, stats.records_delivered, stats.batches_delivered) == (1, 3, 0)
    assert stats.bytes_fetched > 4
    assert stats.fetch_latency.count >= 1
    assert (stats.group_id, stats.generation) == ("g", 1)
    assert stats.member_id
    assert stats.member_state.startswith("stable")
    assert (stats.assigned, stats.revoked, stats.lost, stats.rebalance_latency.count) == (1, 0, 0, 1)
    assert (stats.commit_latency.count, stats.commit_failures) == (1, 0)
    assert (after.records_delivered, after.batches_delivered, after.revoked) == (4, 1, 1)


async def test_before_the_start_and_after_the_end_health_says_why() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        servers = broker.bootstrap_servers
        for client in (
            Client(bootstrap_servers=servers),
            Producer(bootstrap_servers=servers),
            Consumer("flights", bootstrap_servers=servers),
        ):
            before = client.health()
            assert (before.status, before.ready, before.ended) == (HealthStatus.FAILED, False, False)
            assert "not started" in str(before)
            async with client:
                assert str(client.health()) == "ok"
                assert client.health().ready
            after = client.health()
            assert (after.status, after.ended) == (HealthStatus.FAILED, True)
            assert "closed" in str(after)


async def test_no_broker_to_be_reached_is_a_failure_that_passes() -> None:
    async with Broker() as broker:
        client = Client(bootstrap_servers=broker.bootstrap_servers, metadata_max_age_ms=20, reconnect_backoff_max_ms=50)
        async with client:
            await broker.stop_broker(0)
            await until(lambda: not client.health().ready)
            await until(lambda: len(client.health().reasons) == 2)
            health = client.health()
            assert not health.ended
            assert not health.ready
            assert any("no broker has sent metadata for" in reason for reason in health.reasons)
            assert any("cannot be reached" in reason for reason in health.reasons)
            await broker.start_broker(0)
            await until(lambda: client.health().status is HealthStatus.OK)


async def test_one_broker_of_several_that_is_gone_degrades_a_client() -> None:
    async with Cluster(brokers=2) as cluster:
        client = Client(bootstrap_servers=cluster.bootstrap_servers)
        async with client:
            port = client.brokers[1].port
            await client.versions(1)
            # Still in the metadata, as the controller has not noticed.
            await cluster.kill_broker(1, noticed_after=3600)
            with pytest.raises(KafkaError):
                await client.request(MetadataRequest(topics=[]), node=1, timeout_ms=2000)
            await until(lambda: client.stats().brokers[1].failures_in_a_row)
            health = client.health()
            assert health.status is HealthStatus.DEGRADED
            assert health.ready
            assert f":{port}" in str(health)
            assert client.stats().brokers[1].state == "unreachable"
            assert client.stats().brokers[1].last_error


async def test_old_metadata_degrades_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers) as client:
        client._cluster.metadata.updated_at = asyncio.get_running_loop().time() - 331
        health = client.health()
    assert health.status is HealthStatus.DEGRADED
    assert health.reasons == ("the metadata is 331 s old",)


async def test_records_without_a_leader_degrade_a_producer() -> None:
    async with Cluster(brokers=2) as cluster:
        await cluster.create_topic("flights", partitions=2)
        lost = cluster.leader("flights", 1)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers, close_timeout_ms=0) as producer:
            await producer.send("flights", b"a", partition=0)
            await cluster.stop_broker(lost)
            await producer.post("flights", b"a", partition=1)
            await until(lambda: "partition flights-1 has no leader (1 batch wait" in str(producer.health()))
            assert producer.health().ready
            await cluster.start_broker(lost)
            await producer.flush()
            await until(lambda: producer.health().status is HealthStatus.OK)


async def test_a_full_buffer_and_old_batches_degrade_a_producer() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        producer = Producer(
            bootstrap_servers=broker.bootstrap_servers,
            buffer_memory=10_000,
            delivery_timeout_ms=200,
            close_timeout_ms=0,
        )
        async with producer:
            broker.faults.drop(ProduceRequest)
            delivery = await producer.post("flights", b"a" * 6000)
            waiting = asyncio.create_task(producer.post("flights", b"b" * 6000))
            await until(lambda: "buffer_memory=10000 is used up" in str(producer.health()))
            await until(lambda: "not acknowledged for" in str(producer.health()) or delivery.done())
            assert isinstance(await asyncio.wait_for(delivery.outcome(), PATIENCE), DeadlineError)
            broker.faults.clear()
            await (await waiting).outcome()


async def test_a_group_that_rebalances_degrades_a_consumer() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        broker.faults.drop(JoinGroupRequest)
        async with Consumer("flights", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            await until(lambda: "rebalancing for" in str(consumer.health()))
            assert consumer.health().status is HealthStatus.DEGRADED
            assert "group 'g'" in str(consumer.health())


async def test_a_partition_that_cannot_be_read_degrades_a_consumer() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights", partitions=3)
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="none")
        consumer.assign(("flights", 0), ("flights", 1), ("flights", 2))
        async with consumer:
            for number in range(3):
                consumer.seek(("flights", number), 77)
            await until(lambda: consumer.partition_state(FLIGHTS).status is PartitionStatus.FAILED)
            await until(lambda: "OFFSET_OUT_OF_RANGE" in str(consumer.health()))
            assert consumer.health().ready


async def test_statistics_are_read_in_the_clients_own_loop() -> None:
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers) as client:

        async def elsewhere() -> None:
            client.stats()

        with pytest.raises(KafkaError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, elsewhere())
