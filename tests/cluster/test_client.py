"""The client on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from aiokproto.client import Client
from aiokproto.cluster import TopicInfo
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from aiokproto.errors import (
    BrokerConnectionError,
    ClientClosedError,
    ConfigurationError,
    EncodeError,
    InvalidTopicError,
    UnknownTopicError,
)
from tests.clusters import BehaviourCluster


async def test_metadata_in_every_version(cluster: BehaviourCluster, topic: str) -> None:
    """In every version that the broker supports."""
    await cluster.create_topic(topic, partitions=3)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        node = next(iter(client.brokers))
        theirs = (await client.versions(node))["Metadata"]
        for version in range(theirs.lowest, min(theirs.highest, MetadataRequest.versions.highest) + 1):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            answer = await client.request(request, max_version=version)
            assert [found.name for found in answer.topics] == [topic]
            assert sorted(partition.partition_index for partition in answer.topics[0].partitions) == [0, 1, 2]


async def found(client: Client, topic: str) -> Mapping[str, TopicInfo]:
    """Wait until a topic that is still being created is in the metadata."""
    while True:
        try:
            return await client.metadata([topic])
        except UnknownTopicError:
            pass


async def test_a_topic_is_found_as_soon_as_it_exists(cluster: BehaviourCluster, topic: str) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        new = CreatableTopic(name=topic, num_partitions=2, replication_factor=1)
        looking = asyncio.ensure_future(found(client, topic))
        answer = await client.request(CreateTopicsRequest(topics=[new], timeout_ms=10_000))
        assert [result.error_code for result in answer.topics] == [0]
        again = await client.request(CreateTopicsRequest(topics=[new], timeout_ms=10_000))
        assert [result.error_code for result in again.topics] == [36], "TOPIC_ALREADY_EXISTS is returned to the caller"
        assert len((await looking)[topic].partitions) == 2
        # Another broker may learn of the topic later.
        while topic not in await client.metadata():
            pass
        assert client.snapshot.leader(topic, 1) in client.brokers


async def test_unknown_and_invalid_topics_are_errors(cluster: BehaviourCluster, topic: str) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_max_ms=100) as client:
        with pytest.raises(UnknownTopicError, match=topic):
            await client.metadata([topic])
        with pytest.raises(InvalidTopicError, match="a b"):
            await client.metadata(["a b"])


async def test_every_broker_answers_api_versions(cluster: BehaviourCluster) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        for node in client.brokers:
            versions = await client.versions(node)
            assert {"Produce", "Fetch", "Metadata", "ApiVersions"} <= set(versions)
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            answer = await client.request(request, node)
            assert len(answer.api_keys) == len(versions)
            assert await client.version(MetadataRequest, node) <= versions["Metadata"].highest


async def test_requests_are_sent_to_their_coordinator(cluster: BehaviourCluster, topic: str) -> None:
    """This includes the first request, for which the brokers must create the topic __consumer_offsets."""
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=topic, topics=None)])
        answer = await client.request(request)
        assert [(group.group_id, group.error_code) for group in answer.groups] == [(topic, 0)]
        old = await client.request(OffsetFetchRequest(group_id=topic, topics=None), max_version=7)
        assert (old.error_code, old.topics) == (0, [])
        found = await client.request(FindCoordinatorRequest(coordinator_keys=[topic]))
        assert found.coordinators[0].node_id in client.brokers


async def test_the_offsets_of_all_topics_have_the_topics_names(cluster: BehaviourCluster, topic: str) -> None:
    """It holds for both forms of the request, in every version that carries each: the newest ones have ids in place of
    names."""
    await cluster.create_topic(topic)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        commit = OffsetCommitRequestTopic(
            name=topic, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        )
        await client.request(OffsetCommitRequest(group_id=topic, topics=[commit]))
        of_groups = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=topic, topics=None)])
        for version in (8, 9, None):
            answer = await client.request(of_groups, max_version=version)
            assert [found.name for found in answer.groups[0].topics] == [topic]
        for version in range(2, 8):
            old = await client.request(OffsetFetchRequest(group_id=topic, topics=None), max_version=version)
            assert [found.name for found in old.topics] == [topic]
        # A caller that names the newest version gets what that version has.
        by_id = await client.request(of_groups, max_version=10)
        node = (await client.metadata([topic]))[topic]
        assert [found.topic_id for found in by_id.groups[0].topics] == [node.topic_id]


async def test_find_coordinator_in_the_version_with_one_key(cluster: BehaviourCluster, topic: str) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        found = await client.request(FindCoordinatorRequest(key=topic), max_version=3)
        assert found.node_id in client.brokers


async def test_requests_are_sent_to_the_leader_of_their_partitions(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
        answer = await client.request(request)
        assert [(one.error_code, one.offset) for one in answer.topics[0].partitions] == [(0, 0)]
        with pytest.raises(ConfigurationError, match="names no partition"):
            await client.request(ListOffsetsRequest(replica_id=-1, topics=[]))


async def test_requests_are_divided_among_leaders_and_coordinators(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, 6)
    groups = [f"{topic}-{number}" for number in range(6)]
    async with Client(bootstrap_servers=cluster3.bootstrap_servers) as client:
        for group in groups:
            commit = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
            request = OffsetCommitRequest(
                group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[commit])]
            )
            await client.request(request, max_version=8)
        partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(6)]
        ends = await client.request(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])
        )
        (found,) = ends.topics
        assert sorted((one.partition_index, one.error_code, one.offset) for one in found.partitions) == [
            (index, 0, 0) for index in range(6)
        ]
        described = await client.request(DescribeGroupsRequest(groups=groups))
        assert sorted((one.group_id, one.error_code) for one in described.groups) == [(group, 0) for group in groups]
        listed = {group.group_id for group in (await client.request(ListGroupsRequest())).groups}
        assert listed >= set(groups)


async def test_a_producer_id_without_transactions_comes_from_any_broker(cluster: BehaviourCluster, topic: str) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        plain = await client.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))
        assert (plain.error_code, plain.producer_epoch) == (0, 0)


@pytest.mark.exclusive
async def test_requests_survive_the_loss_of_brokers(cluster3: BehaviourCluster, topic: str) -> None:
    """A broker is stopped: this tests any request, leaders and coordinators that move, and the broker's return."""
    await cluster3.create_topic(topic, partitions=3, replication=3)
    async with Client(bootstrap_servers=cluster3.bootstrap_servers) as client:
        await client.metadata([topic])
        stopped = client.snapshot.leader(topic, 0)
        assert stopped is not None
        await cluster3.stop_broker(stopped)
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
        answer = await client.request(request)
        while answer.topics[0].partitions[0].error_code:
            answer = await client.request(request)
        assert client.snapshot.leader(topic, 0) != stopped
        for number in range(5):
            group = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=f"{topic}-{number}", topics=None)])
            assert (await client.request(group)).groups[0].error_code == 0
        with pytest.raises(BrokerConnectionError, match=rf"broker {stopped} "):
            await client._cluster.send(ApiVersionsRequest(), stopped)
        await cluster3.start_broker(stopped)
        asked_again = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert (await client.request(asked_again, stopped)).error_code == 0


async def test_a_closed_client_refuses_requests(cluster: BehaviourCluster) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        pass
    with pytest.raises(ClientClosedError):
        await client.request(MetadataRequest(topics=[]))
    with pytest.raises(ClientClosedError):
        await client.start()


def test_a_wrong_option_is_refused_when_the_client_is_created() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'request_timeout_ms'"):
        Client(bootstrap_servers="a:1", request_timeout=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def test_a_malformed_request_is_refused_before_it_is_divided(cluster: BehaviourCluster) -> None:
    wrong: Any = ["t"]
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        with pytest.raises(EncodeError, match=r"topics\[0\]: expected CreatableTopic, got str 't'"):
            await client.request(CreateTopicsRequest(topics=wrong))
