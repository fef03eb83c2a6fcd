"""Members with ``group_protocol="auto"`` whose cluster has the consumer protocol no more, and then again.

On the embedded broker and on real Kafka, where ``group.version`` decides.
"""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto import Client, Consumer
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from aiokproto.group.classic_member import ClassicMember
from aiokproto.group.member import AutoMember
from aiokproto.types import TopicPartition
from tests.behaviour.test_consumer_protocol import SharedReading, group_type, member, total, until
from tests.clusters import BehaviourCluster

UPGRADE, SAFE_DOWNGRADE = 1, 2

pytestmark = pytest.mark.exclusive


async def set_group_version(cluster: BehaviourCluster, level: int) -> None:
    """Enable the consumer protocol (1), or disable it (0)."""
    kind = UPGRADE if level else SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature="group.version", max_version_level=level, upgrade_type=kind)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(UpdateFeaturesRequest(feature_updates=[update]))
    assert not any([response.error_code, *(result.error_code for result in response.results)]), response


def is_classic(consumer: Consumer) -> bool:
    """Whether the consumer uses the classic protocol."""
    chosen = consumer._engine.member
    return isinstance(chosen._member if isinstance(chosen, AutoMember) else chosen, ClassicMember)


@pytest.mark.parametrize("static", [False, True])
async def test_members_go_on_with_the_classic_protocol(cluster: BehaviourCluster, topic: str, static: bool) -> None:
    """Nothing is lost or repeated. When the protocol is back, new members use it, in the same group."""
    await cluster.create_topic(topic, partitions=4)
    lost: list[TopicPartition] = []
    reading = SharedReading(cluster, topic)

    async def start(name: str) -> Consumer:
        instance: dict[str, Any] = {"group_instance_id": name} if static else {}
        consumer = member(cluster, topic, group_protocol="auto", auto_commit_interval_ms=60_000, **instance)
        consumer.subscribe(topic, on_lost=lost.extend)
        await consumer.start()
        members.append(consumer)
        return consumer

    members: list[Consumer] = []
    try:
        one, other = await start("one"), await start("other")
        await reading.read(one, other)
        assert await group_type(cluster, topic) == "consumer"
        try:
            await set_group_version(cluster, 0)
            while not (is_classic(one) and is_classic(other)):
                await reading.read(one, other)
            await reading.read(one, other)
        finally:
            await set_group_version(cluster, 1)
        third = await start("third")
        await reading.read(one, other, third)
        assert await group_type(cluster, topic) == "consumer"
    finally:
        for consumer in members:
            await consumer.close()
    assert lost == []
    reading.check()


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
async def test_a_member_that_was_removed_before_its_group_became_classic_joins_again(
    cluster: BehaviourCluster, topic: str, protocol: str
) -> None:
    """It joins as a member of the consumer protocol, so the group changes its type once more."""
    await cluster.create_topic(topic, partitions=2)
    lost: list[TopicPartition] = []
    removed = member(cluster, topic, group_protocol=protocol, enable_auto_commit=False)
    removed.subscribe(topic, on_lost=lost.extend)
    async with member(cluster, topic, topic, group_protocol="classic", enable_auto_commit=False) as classic, removed:
        await until(lambda: total(classic) == total(removed) == 1, classic, removed)
        await leave(cluster, f"{topic}-group", removed)
        await until(lambda: bool(lost), classic, removed)
        await until(lambda: total(classic) == total(removed) == 1, classic, removed)
        assert not is_classic(removed)
        assert await group_type(cluster, topic) == "consumer"


async def leave(cluster: BehaviourCluster, group_id: str, consumer: Consumer) -> None:
    """Have the coordinator remove the member, as when its session expires."""
    member_id = consumer.group_metadata().member_id
    request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=-1)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(request)
    assert response.error_code == 0, response
