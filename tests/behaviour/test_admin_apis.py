"""Requests of admin tools: elections, reassignments, log directories, configs, features."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokproto import Client
from aiokproto.codec.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from aiokproto.codec.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokproto.codec.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from aiokproto.codec.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from aiokproto.codec.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from aiokproto.codec.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from aiokproto.codec.messages.list_config_resources import ListConfigResourcesRequest
from aiokproto.codec.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from aiokproto.codec.messages.unregister_broker import UnregisterBrokerRequest
from aiokproto.codec.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from aiokproto.error_codes import ErrorCode
from tests.clusters import BehaviourCluster

TOPIC_RESOURCE = 2


@pytest.fixture
async def client(cluster: BehaviourCluster) -> AsyncIterator[Client]:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
async def client3(cluster3: BehaviourCluster) -> AsyncIterator[Client]:
    async with Client(bootstrap_servers=cluster3.bootstrap_servers) as client:
        yield client


async def elect(client: Client, topic: str, partition: int, kind: int = 0) -> ErrorCode:
    partitions = [TopicPartitions(topic=topic, partitions=[partition])]
    response = await client.request(ElectLeadersRequest(election_type=kind, topic_partitions=partitions))
    assert response.error_code == 0
    return ErrorCode(response.replica_election_results[0].partition_result[0].error_code)


@pytest.mark.exclusive
async def test_the_preferred_replica_is_elected(cluster3: BehaviourCluster, client3: Client, topic: str) -> None:
    await cluster3.create_topic(topic, replication=3)
    assert await elect(client3, topic, 0) is ErrorCode.ELECTION_NOT_NEEDED
    assert await elect(client3, topic, 0, kind=1) is ErrorCode.ELECTION_NOT_NEEDED
    assert await elect(client3, topic, 9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await elect(client3, "no-such-topic", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    every = await client3.request(ElectLeadersRequest(topic_partitions=None))
    assert [each.partition_result for each in every.replica_election_results if each.topic == topic] == [[]]


async def described(client: Client, topic: str) -> Any:
    response = await client.request(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]))
    return response.topics[0].partitions[0]


async def reassign(client: Client, topic: str, replicas: list[int] | None, **options: Any) -> ErrorCode:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[partition])], **options
    )
    response = await client.request(request)
    assert response.error_code == 0
    return ErrorCode(response.responses[0].partitions[0].error_code)


async def settled(client: Client, topic: str, replicas: list[int]) -> Any:
    """Wait until every broker has the partition's new replicas."""
    while True:
        found = await described(client, topic)
        if found.replica_nodes == replicas and sorted(found.isr_nodes) == sorted(replicas):
            return found


@pytest.mark.exclusive
async def test_a_partition_moves_to_other_brokers(cluster3: BehaviourCluster, client3: Client, topic: str) -> None:
    await cluster3.create_topic(topic)
    found = await described(client3, topic)
    (at,) = found.replica_nodes
    assert (found.eligible_leader_replicas, found.last_known_elr) == ([], [])
    other, third = [node for node in cluster3.broker_ids if node != at]
    assert await reassign(client3, topic, [other]) is ErrorCode.NONE
    assert (await settled(client3, topic, [other])).leader_id == other
    assert await reassign(client3, topic, [third, at]) is ErrorCode.NONE
    await settled(client3, topic, [third, at])
    under_way = await client3.request(ListPartitionReassignmentsRequest(topics=None))
    assert (under_way.error_code, under_way.topics) == (0, [])
    forbidden = await reassign(client3, topic, [other], allow_replication_factor_change=False)
    assert forbidden is ErrorCode.INVALID_REPLICATION_FACTOR


async def test_invalid_reassignments_are_refused(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    assert await reassign(client, topic, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert await reassign(client, "no-such-topic", [0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for replicas in ([], [77], [cluster.broker_ids[0]] * 2):
        assert await reassign(client, topic, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT, replicas


async def test_log_directories(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    node = cluster.broker_ids[0]
    wanted = [
        DescribableLogDirTopic(topic=topic, partitions=[0, 7]),
        DescribableLogDirTopic(topic="none", partitions=[0]),
    ]
    # A real broker creates the log when it learns of the partition, after the controller has responded.
    while True:
        response = await client.request(DescribeLogDirsRequest(topics=wanted), node=node)
        (found,) = response.results
        if found.topics:
            break
    assert (found.error_code, [(each.name, [p.partition_index for p in each.partitions]) for each in found.topics]) == (
        0,
        [(topic, [0])],
    )
    assert 0 < found.usable_bytes <= found.total_bytes

    async def move(path: str, index: int) -> ErrorCode:
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        response = await client.request(request, node=node)
        return ErrorCode(response.results[0].partitions[0].error_code)

    assert await move(found.log_dir, 0) is ErrorCode.NONE
    assert await move("/nowhere", 0) is ErrorCode.LOG_DIR_NOT_FOUND


async def test_alter_configs_replaces_all_configs(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic, config={"retention.ms": "1000", "segment.ms": "2000"})

    async def alter(name: str, value: str | None, **options: Any) -> ErrorCode:
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[AlterableConfig(name=name, value=value)]
        )
        response = await client.request(AlterConfigsRequest(resources=[resource], validate_only=False, **options))
        return ErrorCode(response.responses[0].error_code)

    assert await alter("segment.ms", "3000") is ErrorCode.NONE
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["retention.ms", "segment.ms"]
    )
    # Real brokers learn of it from the controller.
    while True:
        configs = (await client.request(DescribeConfigsRequest(resources=[resource]))).results[0].configs
        if {config.name: config.value for config in configs} == {"retention.ms": "604800000", "segment.ms": "3000"}:
            break
    assert await alter("no.such.option", "1") is ErrorCode.INVALID_CONFIG


async def test_topics_are_described_page_by_page(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        await cluster.create_topic(name, partitions=3)
    requests = [TopicRequest(name=name) for name in [*names, f"{topic}-none"]]
    pages: list[list[tuple[str | None, int, list[int]]]] = []
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=requests, response_partition_limit=2, cursor=cursor)
        response = await client.request(request)
        pages.append(
            [(each.name, each.error_code, [p.partition_index for p in each.partitions]) for each in response.topics]
        )
        if response.next_cursor is None:
            break
        cursor = response.next_cursor
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    seen = [(name, index) for page in pages for name, _, indexes in page for index in indexes]
    assert seen == [(name, index) for name in names for index in range(3)]
    assert pages[0] == [(names[0], 0, [0, 1])]
    assert pages[-1][-1] == (f"{topic}-none", unknown, [])


async def test_resources_with_configs_are_listed(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    response = await client.request(ListConfigResourcesRequest(resource_types=[TOPIC_RESOURCE, 4]))
    found = {(each.resource_type, each.resource_name) for each in response.config_resources}
    assert {(TOPIC_RESOURCE, topic), (4, str(cluster.broker_ids[0]))} <= found
    assert {kind for kind, _ in found} == {TOPIC_RESOURCE, 4}
    every = await client.request(ListConfigResourcesRequest())
    assert {kind for kind, _ in found} <= {each.resource_type for each in every.config_resources}
    wrong = await client.request(ListConfigResourcesRequest(resource_types=[77]))
    assert wrong.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("feature", "level", "kind"),
    [("no.such.feature", 1, 1), ("transaction.version", 99, 1), ("transaction.version", 1, 1)],
    ids=["unknown feature", "unknown level", "downgrade not allowed"],
)
async def test_features_that_cannot_be_changed(client: Client, feature: str, level: int, kind: int) -> None:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    response = await client.request(UpdateFeaturesRequest(feature_updates=[update], validate_only=True))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert feature in (response.error_message or "")


async def test_the_metadata_quorum_has_a_leader(client: Client) -> None:
    requested = [
        DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
    ]
    response = await client.request(DescribeQuorumRequest(topics=requested))
    partition = response.topics[0].partitions[0]
    assert (response.error_code, partition.error_code) == (0, 0)
    assert partition.leader_id in [voter.replica_id for voter in partition.current_voters]
    assert partition.high_watermark > 0
    assert all(voter.log_end_offset > 0 for voter in partition.current_voters)


async def test_a_broker_describes_its_addresses_and_id(cluster: BehaviourCluster, client: Client) -> None:
    node = cluster.broker_ids[0]
    keys = ["advertised.listeners", "listeners", "node.id"]
    resource = DescribeConfigsResource(resource_type=4, resource_name=str(node), configuration_keys=keys)
    (result,) = (await client.request(DescribeConfigsRequest(resources=[resource]), node=node)).results
    found = {entry.name: entry for entry in result.configs}
    assert found["node.id"].value == str(node)
    assert f"://{cluster.bootstrap_servers.split(',')[0]}" in (found["listeners"].value or "")
    assert {name: entry.config_type for name, entry in found.items()} == {
        "advertised.listeners": 7,
        "listeners": 7,
        "node.id": 3,
    }
    assert found["node.id"].read_only


async def test_a_topic_can_have_no_cleanup_policy(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    """Nothing is deleted or compacted then."""
    await cluster.create_topic(topic, config={"cleanup.policy": ""})
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["cleanup.policy"]
    )
    (result,) = (await client.request(DescribeConfigsRequest(resources=[resource]))).results
    assert [entry.value for entry in result.configs] == [""]


async def test_an_unknown_broker_cannot_be_unregistered(client: Client) -> None:
    response = await client.request(UnregisterBrokerRequest(broker_id=77))
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


CLIENT_METRICS_RESOURCE, GROUP_RESOURCE = 16, 32


async def test_an_empty_list_of_keys_describes_every_option(
    cluster: BehaviourCluster, client: Client, topic: str
) -> None:
    await cluster.create_topic(topic)

    async def names(keys: list[str] | None) -> set[str]:
        resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=keys)
        while True:
            result = (await client.request(DescribeConfigsRequest(resources=[resource]))).results[0]
            if result.error_code == 0:
                return {config.name for config in result.configs}

    every = await names(None)
    assert "retention.ms" in every
    assert await names([]) == every
    assert await names(["retention.ms"]) == {"retention.ms"}


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC_RESOURCE, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC_RESOURCE, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CLIENT_METRICS_RESOURCE, "", ErrorCode.INVALID_REQUEST),
        (GROUP_RESOURCE, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_configs_of_a_resource_that_cannot_be_are_refused(
    client: Client, kind: int, name: str, error: ErrorCode
) -> None:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    result = (await client.request(DescribeConfigsRequest(resources=[resource]))).results[0]
    assert (ErrorCode(result.error_code), result.configs) == (error, [])
