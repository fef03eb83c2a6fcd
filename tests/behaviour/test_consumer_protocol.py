"""Consumers whose assignment the broker computes (KIP-848), and the change between the protocols while a group is read.

What is the same with both protocols is in test_groups. On the embedded broker and on real Kafka.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.client import Client
from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.consumer import Consumer, PartitionStatus
from aiokproto.errors import BrokerError, ConfigurationError, UnsupportedVersionError
from aiokproto.types import TopicPartition
from tests.behaviour.feed import fill
from tests.behaviour.test_groups import configure
from tests.clusters import BehaviourCluster, embedded_cluster
from tests.timeouts import LONG_TIMEOUT


def member(cluster: BehaviourCluster, topic: str, *topics: str, **options: Any) -> Consumer:
    given: dict[str, Any] = {
        "group_id": f"{topic}-group",
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "metadata_max_age_ms": 300,
    }
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **given | options)


async def until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    """Let the members read until the condition holds."""

    async def read() -> None:
        while not condition():
            for consumer in consumers:
                await consumer.poll(timeout_ms=20)

    try:
        await asyncio.wait_for(read(), LONG_TIMEOUT)
    except asyncio.TimeoutError:
        states = [consumer._engine.member and consumer._engine.member.state for consumer in consumers]
        pytest.fail(f"{states}, {[sorted(consumer.assignment()) for consumer in consumers]}")


async def described(cluster: BehaviourCluster, topic: str) -> DescribedGroup:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(ConsumerGroupDescribeRequest(group_ids=[f"{topic}-group"]))
    (group,) = response.groups
    return group


async def group_type(cluster: BehaviourCluster, topic: str) -> str:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(ListGroupsRequest())
    (found,) = [each.group_type for each in response.groups if each.group_id == f"{topic}-group"]
    return str(found).lower()


class SharedReading:
    """Members read the topic's four partitions together, while the group changes."""

    def __init__(self, cluster: BehaviourCluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._seen: list[tuple[int, int]] = []
        self._written = 0

    async def read(self, *consumers: Consumer) -> None:
        """Write five records to each partition; return once all are read, and each of these has partitions."""
        await fill(self._cluster, self._topic, 5, range(4), start=self._written)
        self._written += 5

        async def all_read() -> None:
            while not self._complete() or total(*consumers) < 4 or not all(map(total, consumers)):
                for consumer in consumers:
                    self._seen.extend((record.partition, record.offset) for record in await consumer.poll(20))

        await asyncio.wait_for(all_read(), LONG_TIMEOUT)

    def check(self) -> None:
        """Assert that every record was read, and none twice."""
        assert self._complete()
        assert len(self._seen) == len(set(self._seen))

    def _complete(self) -> bool:
        return len(set(self._seen)) == 4 * self._written


def total(*consumers: Consumer) -> int:
    return sum(len(consumer.assignment()) for consumer in consumers)


# ---- what the broker knows


async def test_the_broker_knows_the_members_options(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    options: dict[str, Any] = {
        "group_remote_assignor": "range",
        "client_rack": "r1",
        "group_instance_id": "i1",
        "client_id": "me",
    }
    async with member(cluster, topic, topic, **options) as consumer:
        await until(lambda: total(consumer) == 2, consumer)
        group = await described(cluster, topic)
        assert group.assignor_name == "range"
        (seen,) = group.members
        assert (seen.rack_id, seen.instance_id, seen.client_id) == ("r1", "i1", "me")
        assert seen.subscribed_topic_names == [topic]
        metadata = consumer.group_metadata()
        assert (metadata.member_id, metadata.generation) == (seen.member_id, seen.member_epoch)
        assert metadata.instance_id == "i1"


async def test_an_unknown_assignor_is_refused(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with member(cluster, topic, topic, group_remote_assignor="nonsense") as consumer:
        with pytest.raises(BrokerError, match="nonsense"):
            await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)


# ---- patterns


async def test_the_broker_matches_a_pattern_and_finds_new_topics(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(f"{topic}-1")
    async with member(cluster, topic) as consumer:
        consumer.subscribe(pattern=rf"{re.escape(topic)}-[0-9]+")
        await until(lambda: consumer.assignment() == {TopicPartition(f"{topic}-1", 0)}, consumer)
        (seen,) = (await described(cluster, topic)).members
        assert seen.subscribed_topic_regex == rf"{re.escape(topic)}-[0-9]+"
        assert seen.subscribed_topic_names == []
        consumer.subscribe(f"{topic}-1")
        while (await described(cluster, topic)).members[0].subscribed_topic_regex:
            await consumer.poll(20)
        assert consumer.assignment() == {TopicPartition(f"{topic}-1", 0)}


async def test_the_client_matches_what_only_python_understands(cluster: BehaviourCluster, topic: str) -> None:
    for name in ("a", "b"):
        await cluster.create_topic(f"{topic}-{name}")
    async with member(cluster, topic) as consumer:
        consumer.subscribe(pattern=rf"{re.escape(topic)}-(?!b).*")
        await until(lambda: consumer.assignment() == {TopicPartition(f"{topic}-a", 0)}, consumer)
        (seen,) = (await described(cluster, topic)).members
        assert seen.subscribed_topic_names == [f"{topic}-a"]
        await cluster.create_topic(f"{topic}-c")
        await until(lambda: total(consumer) == 2, consumer)


# ---- members that come and go


async def test_a_revocation_waits_for_the_record_being_processed(cluster: BehaviourCluster, topic: str) -> None:
    moving, staying = f"{topic}-moving", f"{topic}-staying"
    await cluster.create_topic(moving)
    await cluster.create_topic(staying)
    await fill(cluster, moving, 5)
    async with member(cluster, topic, moving, staying, group_remote_assignor="uniform") as first:
        record = await asyncio.wait_for(anext(first), LONG_TIMEOUT)
        assert (record.topic, record.offset) == (moving, 0)
        async with member(cluster, topic, moving, group_remote_assignor="uniform") as second:
            getting = asyncio.create_task(asyncio.wait_for(anext(second), LONG_TIMEOUT))
            while first.partition_state((moving, 0)).status is not PartitionStatus.REVOKING:
                await first.committed((moving, 0))
            assert not getting.done()
            finishing = asyncio.create_task(first.poll(LONG_TIMEOUT * 1000))
            other = await getting
            assert (other.topic, other.offset) == (moving, 1)
            finishing.cancel()
            await asyncio.wait([finishing])


async def test_a_static_member_that_crashed_returns_when_its_session_has_expired(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await configure(cluster, f"{topic}-group", consumer_session_timeout_ms="3000")
    crashed = member(cluster, topic, topic, group_instance_id="one")
    await crashed.start()
    await until(lambda: total(crashed) == 1, crashed)
    engine = crashed._engine
    for task in engine._tasks.values():
        task.cancel()
    await engine.cluster.close()
    async with member(cluster, topic, topic, group_instance_id="one") as again:
        await until(lambda: total(again) == 1, again)
    await crashed.close(timeout_ms=100)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("instance", "leave", "members"),
    [(None, "default", 0), ("i", "default", 1), ("i", "leave", 0), ("i", "remain", 1), (None, "remain", 1)],
)
async def test_closing_leaves_the_group_or_remains(
    cluster: BehaviourCluster, topic: str, protocol: str, instance: str | None, leave: Any, members: int
) -> None:
    await cluster.create_topic(topic)
    consumer = member(cluster, topic, topic, group_instance_id=instance, group_protocol=protocol)
    await consumer.start()
    await until(lambda: total(consumer) == 1, consumer)
    await consumer.close(leave=leave)
    if protocol == "consumer":
        assert len((await described(cluster, topic)).members) == members
    else:
        async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            response = await client.request(DescribeGroupsRequest(groups=[f"{topic}-group"]))
        assert len(response.groups[0].members) == members


async def test_a_rebalance_can_be_enforced_in_a_classic_group_only(
    cluster: BehaviourCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.create_topic(topic)
    async with member(cluster, topic, topic, group_protocol="classic") as consumer:
        await until(lambda: total(consumer) == 1, consumer)
        before = consumer.group_metadata().generation
        consumer.enforce_rebalance("the input of the assignor has changed")
        await until(lambda: consumer.group_metadata().generation > before, consumer)
    async with member(cluster, f"{topic}2", topic) as consumer:
        await until(lambda: total(consumer) == 1, consumer)
        before = consumer.group_metadata().generation
        consumer.enforce_rebalance("because")
        await consumer.poll(500)
        assert consumer.group_metadata().generation == before
        assert "not enforced: because" in caplog.text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_callbacks_can_use_their_consumer(cluster: BehaviourCluster, topic: str, protocol: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 3, [0, 1])
    calls: list[str] = []
    async with member(cluster, topic, group_protocol=protocol, enable_auto_commit=False) as consumer:

        async def assigned(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                assert await consumer.position(partition) == 0
                assert await consumer.committed(partition) == {partition: None}
                consumer.seek(partition, 2)
                assert await consumer.position(partition) == 2
                await consumer.commit({partition: 1})
                consumer.pause(partition)
            calls.append("assigned")

        async def revoked(partitions: list[TopicPartition]) -> None:
            await consumer.commit()
            found = await consumer.committed(*partitions)
            assert {known and known.offset for known in found.values()} == {3}
            with pytest.raises(RuntimeError, match="rebalance callback"):
                await consumer.unsubscribe()
            calls.append("revoked")

        consumer.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
        await until(lambda: bool(calls), consumer)
        consumer.resume()
        offsets = {(await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)).offset for _ in range(2)}
        assert offsets == {2}
        await consumer.unsubscribe()
        assert calls == ["assigned", "revoked"]


# ---- migration


async def test_a_group_changes_its_protocol_while_it_is_read(cluster: BehaviourCluster, topic: str) -> None:
    """Members of one protocol replace the others one by one, and back. No member loses a partition, and no record is
    repeated."""
    await cluster.create_topic(topic, partitions=4)
    lost: list[TopicPartition] = []
    reading = SharedReading(cluster, topic)

    def make(protocol: str) -> Consumer:
        consumer = member(cluster, topic, group_protocol=protocol, auto_commit_interval_ms=50)
        consumer.subscribe(topic, on_lost=lost.extend)
        return consumer

    members = [make("classic"), make("classic")]
    try:
        for consumer in members:
            await consumer.start()
        await reading.read(*members)
        assert await group_type(cluster, topic) == "classic"
        for protocol, during in (("consumer", "consumer"), ("auto", "consumer"), ("classic", "consumer")):
            await members.pop(0).close()
            members.append(make(protocol))
            await members[-1].start()
            await reading.read(*members)
            assert await group_type(cluster, topic) == during
        await members.pop(0).close()
        await reading.read(*members)
        assert await group_type(cluster, topic) == "classic"
    finally:
        for consumer in members:
            await consumer.close()
    assert lost == []
    reading.check()


async def test_auto_is_the_classic_protocol_where_the_broker_refuses_the_other(topic: str) -> None:
    from aiokproto.broker import Broker

    async with Broker(config={"group.consumer.migration.policy": "disabled"}) as broker:
        await broker.create_topic(topic, 2)
        options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "heartbeat_interval_ms": 100}
        async with Consumer(topic, group_id="g", **options) as classic:
            await until(lambda: total(classic) == 2, classic)
            async with Consumer(topic, group_id="g", group_protocol="auto", **options) as auto:
                await until(lambda: total(auto) == 1, classic, auto)
                assert "in group 'g'" in str(auto._engine.member and auto._engine.member.state)
            async with Consumer(topic, group_id="g", group_protocol="consumer", **options) as refused:
                with pytest.raises(BrokerError, match="cannot be upgraded"):
                    await asyncio.wait_for(anext(refused), LONG_TIMEOUT)


@pytest.mark.parametrize(("release", "protocol"), [("3.3", "classic"), ("3.9", "consumer"), ("4.4", "consumer")])
async def test_auto_is_what_the_release_of_the_broker_has(topic: str, release: str, protocol: str) -> None:
    from aiokproto.broker import Broker

    async with Broker(as_version=release) as broker:
        await broker.create_topic(topic, 2)
        options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        async with Consumer(group_id="g", group_protocol="auto", **options) as consumer:
            consumer.subscribe(pattern=f"{topic}.*")
            await until(lambda: total(consumer) == 2, consumer)
            await until(lambda: consumer.stats().rebalance_latency.count == 1, consumer)
            assert "rebalancing" not in str(consumer.health())
            await consumer.commit()
            group = broker._running.groups.entry("g")
            assert group is not None
            assert group.group.type == protocol


async def test_a_broker_without_the_consumer_protocol_is_named_with_the_remedy(topic: str) -> None:
    from aiokproto.broker import Broker

    async with Broker(as_version="3.3") as broker:
        await broker.create_topic(topic)
        async with Consumer(
            topic, bootstrap_servers=broker.bootstrap_servers, group_id="g", group_protocol="consumer"
        ) as consumer:
            with pytest.raises(UnsupportedVersionError, match='pass group_protocol="classic"'):
                await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)


async def test_patterns_are_matched_by_the_client_if_the_broker_cannot(topic: str) -> None:
    from aiokproto.broker import Broker

    async with Broker(as_version="3.9") as broker:
        await broker.create_topic(topic, 2)
        async with Consumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="g", group_protocol="consumer"
        ) as consumer:
            consumer.subscribe(pattern=f"{topic}.*")
            await until(lambda: total(consumer) == 2, consumer)


async def test_auto_is_the_classic_protocol_with_assignors_of_ones_own(topic: str) -> None:
    async with embedded_cluster(1) as cluster:
        await cluster.create_topic(topic)
        async with member(
            cluster, topic, topic, group_protocol="auto", partition_assignment_strategy="sticky"
        ) as consumer:
            await until(lambda: total(consumer) == 1, consumer)
            assert await group_type(cluster, topic) == "classic"


@pytest.mark.parametrize(
    "options",
    [
        {"group_protocol": "consumer", "partition_assignment_strategy": "range"},
        {"group_protocol": "classic", "group_remote_assignor": "uniform"},
        {"group_protocol": "new"},
        {"group_remote_assignor": ""},
    ],
)
def test_options_of_the_other_protocol_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"group_|partition_assignment_strategy"):
        Consumer("t", bootstrap_servers="127.0.0.1:1", group_id="g", **options)
