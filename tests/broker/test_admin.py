"""Admin handlers: errors, and behaviour that takes long to reproduce on real Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aiokproto.broker import Broker, Cluster
from aiokproto.broker.handlers.refused import BETWEEN_NODES, ERROR
from aiokproto.broker.handlers.served_apis import rows
from aiokproto.codec.frames import decode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from aiokproto.codec.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from aiokproto.codec.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from aiokproto.codec.messages.list_config_resources import ListConfigResourcesRequest
from aiokproto.codec.messages.push_telemetry import PushTelemetryRequest
from aiokproto.codec.messages.unregister_broker import UnregisterBrokerRequest
from aiokproto.codec.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from aiokproto.codec.registry import request
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from tests.broker.test_control import filled
from tests.broker.wire import Wire, connect

PREFERRED, UNCLEAN = 0, 1


async def elect(wire: Wire, kind: int, version: int = 2) -> int:
    partitions = [TopicPartitions(topic="t", partitions=[0])]
    response = await wire.ask(ElectLeadersRequest(election_type=kind, topic_partitions=partitions), version)
    return response.replica_election_results[0].partition_result[0].error_code


async def test_elections() -> None:
    async with Cluster(3) as cluster:
        await cluster.create_topic("t", replication=2)
        first = cluster.leader("t", 0)
        second = await cluster.move_leader("t", 0)
        (third,) = {0, 1, 2} - {first, second}
        async with connect(cluster, third) as wire:
            assert (await elect(wire, PREFERRED, 0), cluster.leader("t", 0)) == (0, first)
            await cluster.stop_broker(first)
            assert await elect(wire, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            await cluster.stop_broker(second)
            assert cluster.leader("t", 0) == -1
            assert await elect(wire, UNCLEAN) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            assert (await wire.ask(ElectLeadersRequest(election_type=7, topic_partitions=[]), 2)).error_code == (
                ErrorCode.INVALID_REQUEST
            )


async def test_an_unclean_election_elects_any_running_replica() -> None:
    async with Cluster(2) as cluster:
        await cluster.create_topic("t", replication=2)
        first = cluster.leader("t", 0)
        await cluster.stop_broker(1 - first)
        partition = cluster._running.state.partition("t", 0)
        assert partition.isr == [first]
        await cluster.stop_broker(first)
        # It's back, but it wasn't in sync when its last leader stopped.
        await cluster.start_broker(1 - first)
        partition.isr, partition.leader = [first], -1
        async with connect(cluster, 1 - first) as wire:
            assert await elect(wire, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            assert (await elect(wire, UNCLEAN), cluster.leader("t", 0)) == (0, 1 - first)
        assert partition.isr == [1 - first]


def update(level: int, kind: int = 1, feature: str = "transaction.version") -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[update])


async def test_features_are_kept(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        before = await wire.ask(ApiVersionsRequest(), 4)
        old = FeatureUpdateKey(feature="transaction.version", max_version_level=1, allow_downgrade=True)
        answer = await wire.ask(UpdateFeaturesRequest(feature_updates=[old]), 0)
        assert [(each.feature, each.error_code) for each in answer.results] == [("transaction.version", 0)]
        assert (await wire.ask(update(0, 3, "group.version"), 2)).error_code == 0
        refused = await wire.ask(update(1, 2), 1)
        assert refused.results[0].error_code == 0, "that is where it is"
        assert (await wire.ask(update(2, 2), 2)).error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert (await wire.ask(update(2, 9), 2)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        after = await wire.ask(ApiVersionsRequest(), 4)
    assert after.finalized_features_epoch > before.finalized_features_epoch
    levels = {each.name: each.max_version_level for each in after.finalized_features}
    assert levels["transaction.version"] == 1
    assert "group.version" not in levels


async def test_telemetry_is_accepted_without_a_subscription(wire: Wire) -> None:
    subscription = await wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID))
    assert subscription.requested_metrics == []
    assert subscription.client_instance_id != ZERO_UUID
    again = await wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=subscription.client_instance_id))
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "not before the interval has passed"

    async def push(**other: Any) -> int:
        fields: dict[str, Any] = {
            # Each push comes from another instance, because one that has pushed has to wait.
            "client_instance_id": uuid4().bytes,
            "subscription_id": subscription.subscription_id,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        }
        return (await wire.ask(PushTelemetryRequest(**(fields | other)))).error_code

    assert await push() == 0
    assert await push(client_instance_id=ZERO_UUID) == ErrorCode.INVALID_REQUEST
    assert await push(subscription_id=7) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert await push(compression_type=9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert await push(metrics=bytes(subscription.telemetry_max_bytes + 1)) == ErrorCode.TELEMETRY_TOO_LARGE
    assert await push(compression_type=4, metrics=b"no zstd") == ErrorCode.INVALID_RECORD
    instance = uuid4().bytes
    assert await push(client_instance_id=instance) == 0
    assert await push(client_instance_id=instance) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert await push(client_instance_id=instance, terminating=True) == 0, "the last push is never too early"
    assert await push(client_instance_id=instance) == ErrorCode.INVALID_REQUEST


async def test_pages_have_limits(broker: Broker, wire: Wire) -> None:
    response = await wire.ask(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=-1))
    assert [len(topic.partitions) for topic in response.topics] == [1]
    assert response.next_cursor == Cursor(topic_name="t", partition_index=1)
    before = Cursor(topic_name="a", partition_index=1)
    response = await wire.ask(DescribeTopicPartitionsRequest(topics=[], cursor=before))
    assert [[each.partition_index for each in topic.partitions] for topic in response.topics] == [[0, 1]]
    beyond = DescribeTopicPartitionsRequest(topics=[], cursor=Cursor(topic_name="t", partition_index=9))
    response = await wire.ask(beyond)
    assert [topic.partitions for topic in response.topics] == [[]]


async def test_client_metrics_have_no_subscriptions(wire: Wire) -> None:
    assert (await wire.ask(ListConfigResourcesRequest(), 0)).config_resources == []


async def test_a_node_is_unregistered_once_it_is_stopped() -> None:
    async with Cluster(2) as cluster:
        await cluster.create_topic("t", replication=2)
        async with connect(cluster) as wire:
            assert (await wire.ask(UnregisterBrokerRequest(broker_id=1))).error_code == ErrorCode.INVALID_REQUEST
            await cluster.stop_broker(1)
            assert (await wire.ask(UnregisterBrokerRequest(broker_id=1))).error_code == ErrorCode.NONE
            again = await wire.ask(UnregisterBrokerRequest(broker_id=1))
            assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert cluster.broker_ids == [0]
        assert cluster.partition("t", 0).replicas == (0,)


@pytest.mark.parametrize("key", [row.key for row in rows() if row.answer != "served" and row.key not in BETWEEN_NODES])
async def test_an_api_that_is_not_served_gets_its_own_response(wire: Wire, key: int) -> None:
    message = request(key)
    for version in range(message.versions.lowest, message.versions.highest + 1):
        response = await wire.ask(filled(message, version), version)
        assert str(int(ERROR)) in str(response)


@pytest.mark.parametrize(
    ("release", "fetch", "api_versions"),
    [("0.8.2", 0, None), ("0.9", 1, None), ("0.10.0", 2, 0), ("0.11", 5, 1), ("2.4", 11, 3), ("3.9.1", 17, 4)],
)
async def test_an_old_release_serves_only_its_versions(release: str, fetch: int, api_versions: int | None) -> None:
    async with Broker(as_version=release) as broker, connect(broker) as wire:
        wire.send(ApiVersionsRequest(), 0)
        if api_versions is None:
            assert await wire.closed()
            return
        assert await wire.frame()
        future = bytearray(b"\0\x12\0\x63\0\0\0\x07\0\x01x\0")
        wire.writer.write(len(future).to_bytes(4, "big") + future)
        refused = decode_response(await wire.frame(), ApiVersionsResponse, 0)
        assert [key.api_key for key in refused.api_keys] == ([18] if api_versions >= 3 else [])
        versions = {key.api_key: key.max_version for key in (await wire.ask(ApiVersionsRequest(), 0)).api_keys}
        assert (versions[1], versions[18]) == (fetch, api_versions)
        wire.send(UnregisterBrokerRequest(broker_id=1))
        if 64 not in versions:
            assert await wire.closed()
        else:
            assert await wire.frame()
