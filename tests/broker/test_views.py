"""Views of a cluster, conditions that tests can wait for, and nodes that are added and removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, Cluster, GroupView, PartitionView, ThreadedCluster
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from tests.broker.wire import Wire, batch, connect, produce, produce_request

T = TypeVar("T")


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(config={"group.initial.rebalance.delay.ms": 0}) as broker:
        await broker.create_topic("t", 2)
        yield broker


async def waiting_task(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return a task that has run up to where it waits."""
    task = asyncio.get_running_loop().create_task(coroutine)
    await asyncio.sleep(0)
    return task


# ---- views


async def test_the_view_of_a_partition(broker: Broker, wire: Wire) -> None:
    assert broker.partition("t", 0) == PartitionView(0, 0, (0,), (0,), 0, 0, 0, 0)
    data = batch([b"x", b"y"])
    await produce(wire, "t", data)
    assert broker.partition("t", 0) == PartitionView(0, 0, (0,), (0,), 0, 2, 2, len(data))
    with pytest.raises(BrokerError) as caught:
        broker.partition("t", 2)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_waiting_for_a_group(broker: Broker) -> None:
    assert broker.group("g") is None
    one = await waiting_task(broker.wait_for_group("g"))
    two = await waiting_task(broker.wait_for_group("g", members=2))
    async with Consumer("t", group_id="g", bootstrap_servers=broker.bootstrap_servers):
        view = await one
        assert (view.group_id, view.type, view.state, len(view.members)) == ("g", "classic", "Stable", 1)
        assert not two.done()
        async with Consumer("t", group_id="g", bootstrap_servers=broker.bootstrap_servers):
            both = await two
            assert both == broker.group("g")
            assert view.members < both.members
            assert (len(both.members), both.epoch > view.epoch) == (2, True)
        alone = await broker.wait_for_group("g", members=1)
        assert alone.members == view.members
    assert (await broker.wait_for_group("g", members=0)).state == "Empty"


async def test_waiting_for_a_group_with_server_side_assignment(broker: Broker, wire: Wire) -> None:
    waiting = await waiting_task(broker.wait_for_group("g", members=2))
    epochs = {"a": 0, "b": 0}
    owned: dict[str, list[TopicPartitions]] = {"a": [], "b": []}
    # a has both partitions, and b joins. a is requested to revoke one, and does. b gets it.
    for member_id in "abaab":
        assert not waiting.done()
        answer = await wire.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=member_id,
                member_epoch=epochs[member_id],
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=["t"],
                topic_partitions=owned[member_id],
            )
        )
        epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            owned[member_id] = [
                TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            ]
    view = await waiting
    assert view == broker.group("g")
    assert (view.type, view.state, view.members) == ("consumer", "Stable", frozenset("ab"))


async def test_a_wait_for_a_group_can_be_given_up(broker: Broker) -> None:
    task = await waiting_task(broker.wait_for_group("g"))
    task.cancel()
    await asyncio.wait([task])
    assert broker._running.groups._waiters == []


async def test_waiting_for_a_group_fails_when_the_cluster_closes() -> None:
    async with Broker() as broker:
        waiting = await waiting_task(broker.wait_for_group("g"))
    with pytest.raises(RuntimeError, match="the cluster was closed; group 'g'"):
        await waiting


def test_a_group_is_stable_with_all_its_members() -> None:
    stable = GroupView("g", "classic", "Stable", 1, frozenset("ab"))
    assert [stable.is_stable(members) for members in (None, 0, 1, 2)] == [True, False, False, True]
    assert not stable._replace(state="PreparingRebalance").is_stable(2)
    empty = GroupView("g", "classic", "Empty", 2, frozenset())
    assert [empty.is_stable(members) for members in (None, 0, 1)] == [False, True, False]


# ---- rules that are waited for


async def test_waiting_for_requests(broker: Broker, wire: Wire) -> None:
    with broker.faults.watch(MetadataRequest) as seen:
        waiting = await waiting_task(seen.wait(2))
        assert len((await wire.ask(MetadataRequest(topics=None))).topics) == 1
        assert not waiting.done()
        await wire.ask(MetadataRequest(topics=None))
        await waiting
        await seen.wait(2)
    assert [fault.kind for fault in broker.faults.log] == ["watch", "watch"]


async def test_waiting_for_a_removed_rule_fails(broker: Broker) -> None:
    rule = broker.faults.watch(FetchRequest)
    waiting = await waiting_task(rule.wait())
    broker.faults.clear()
    with pytest.raises(RuntimeError, match="removed after 0 of 1 requests"):
        await waiting
    with pytest.raises(RuntimeError, match="removed"):
        await rule.wait()


def test_a_rule_is_waited_for_from_another_thread() -> None:
    with ThreadedCluster(Broker()) as kafka:
        rule = kafka.faults.watch(MetadataRequest)
        address = kafka.bootstrap_servers

        async def ask() -> None:
            async with Producer(bootstrap_servers=address):
                pass

        asyncio.run(ask())
        kafka.call(rule.wait)
        assert rule.count >= 1


# ---- nodes that come and go


async def test_a_node_joins(tmp_path: Path) -> None:
    async with Cluster(2, data_dir=tmp_path) as cluster:
        await cluster.create_topic("t", 1, replication=2)
        assert await cluster.add_broker() == 2
        assert cluster.broker_ids == [0, 1, 2]
        await cluster.create_topic("u", 3, replication=3)
        assert sorted(cluster.leader("u", index) for index in range(3)) == [0, 1, 2]
        assert await cluster.move_leader("t", 0, 2) == 2
        async with connect(cluster, 2) as wire:
            assert (await produce(wire, "t", batch([b"x"]))).error_code == 0
            nodes = (await wire.ask(MetadataRequest(topics=[]))).brokers
        assert [node.node_id for node in nodes] == [0, 1, 2]
        assert ",".join(f"{node.host}:{node.port}" for node in nodes) == cluster.bootstrap_servers


async def test_partitions_of_a_removed_node_move_to_others() -> None:
    async with Cluster(3) as cluster:
        await cluster.create_topic("t", 3, replication=1)
        await cluster.create_topic("all", 1, replication=3)
        led = next(index for index in range(3) if cluster.leader("t", index) == 1)
        async with connect(cluster, 1) as wire:
            (topic,) = (await wire.ask(produce_request("t", batch([b"x"]), led), 12)).responses
            assert topic.partition_responses[0].error_code == 0
        await cluster.remove_broker(1)
        assert cluster.broker_ids == [0, 2]
        assert cluster.partition("all", 0).replicas == cluster.partition("all", 0).isr == (0, 2)
        heir = cluster.leader("t", led)
        assert heir in (0, 2)
        assert cluster.partition("t", led).end_offset == 1
        async with connect(cluster, cluster.broker_ids.index(heir)) as wire:
            metadata = await wire.ask(MetadataRequest(topics=None))
        assert [node.node_id for node in metadata.brokers] == [0, 2]
        assert {each for topic in metadata.topics for part in topic.partitions for each in part.replica_nodes} == {0, 2}
        with pytest.raises(ValueError, match="broker 1 cannot be removed"):
            await cluster.remove_broker(1)
        await cluster.remove_broker(0)
        with pytest.raises(ValueError, match="broker 2 cannot be removed"):
            await cluster.remove_broker(2)


async def test_a_client_follows_nodes_that_come_and_go() -> None:
    async with Cluster(1) as cluster:
        await cluster.create_topic("t", 1)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            assert (await producer.send("t", b"one")).offset == 0
            await cluster.add_broker()
            await cluster.move_leader("t", 0, 1)
            assert (await producer.send("t", b"two")).offset == 1
            await cluster.remove_broker(0)
            assert (await producer.send("t", b"three")).offset == 2
