"""Metadata, topics and their options over the wire."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from aiokproto.broker import Broker
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import TopicExistsError
from tests.broker.wire import Wire, batch, connect, produce


@pytest.mark.parametrize("version", range(14))
async def test_metadata_in_every_version(broker: Broker, wire: Wire, version: int) -> None:
    everything = MetadataRequest(topics=[] if version == 0 else None)
    response = await wire.ask(everything, version)
    (node,) = response.brokers
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    (topic,) = response.topics
    assert (topic.name, [partition.leader_id for partition in topic.partitions]) == ("t", [0, 0])
    unknown = await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="nope")]), version)
    assert unknown.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_metadata_by_topic_id(wire: Wire) -> None:
    (topic,) = (await wire.ask(MetadataRequest(topics=None))).topics
    topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (topic.topic_id, b"?" * 16)]
    known, unknown = (await wire.ask(MetadataRequest(topics=topics))).topics
    assert known.name == "t"
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_topics_are_created_on_demand_if_client_and_broker_permit_it() -> None:
    async with Broker(default_partitions=3) as broker, connect(broker) as wire:
        name = [MetadataRequestTopic(name="new")]
        (refused,) = (await wire.ask(MetadataRequest(topics=name, allow_auto_topic_creation=False))).topics
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (created,) = (await wire.ask(MetadataRequest(topics=name))).topics
        assert len(created.partitions) == 3
        (bad,) = (await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="no/slash")]))).topics
        assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def creating(
    name: str,
    partitions: int = 1,
    replication: int = 1,
    assignment: dict[int, list[int]] | None = None,
    **configs: str,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in (assignment or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (creating("new", 4), ErrorCode.NONE),
        (creating("new", -1, -1), ErrorCode.NONE),
        (creating("new", -1, -1, {0: [0], 1: [0]}), ErrorCode.NONE),
        (creating("new", retention_ms="5"), ErrorCode.NONE),
        (creating("t"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (creating(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creating("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creating(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creating("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creating("new", 0), ErrorCode.INVALID_PARTITIONS),
        (creating("new", 1_000_000), ErrorCode.INVALID_PARTITIONS),
        (creating("new", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creating("new", 1, 1, {0: [0]}), ErrorCode.INVALID_REQUEST),
        (creating("new", -1, -1, {1: [0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (creating("new", -1, -1, {0: [5]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (creating("new", retention_mss="5"), ErrorCode.INVALID_CONFIG),
        (creating("new", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (creating("new", cleanup_policy="shred"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_create_topics(wire: Wire, topic: CreatableTopic, error: ErrorCode) -> None:
    for dry_run in (True, False):
        (answer,) = (await wire.ask(CreateTopicsRequest(topics=[topic], validate_only=dry_run))).topics
        assert ErrorCode(answer.error_code) is error, answer.error_message
        found = (await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)]))).topics[0]
        if not error:
            assert bool(found.error_code) is dry_run, "validate_only creates nothing"


async def test_a_topic_named_twice_is_not_created(wire: Wire) -> None:
    response = await wire.ask(CreateTopicsRequest(topics=[creating("new"), creating("new"), creating("other")]))
    assert [ErrorCode(topic.error_code).name for topic in response.topics] == ["INVALID_REQUEST"] * 2 + ["NONE"]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_the_new_partitions_of_a_request_have_a_limit(wire: Wire, dry_run: bool) -> None:
    """As in Kafka: each topic of a short request could have the most that a topic can have."""
    topics = [CreatableTopic(name=f"new{number}", num_partitions=4000, replication_factor=1) for number in range(3)]
    created = await wire.ask(CreateTopicsRequest(topics=topics, validate_only=dry_run))
    assert [each.error_code for each in created.topics] == [ErrorCode.POLICY_VIOLATION] * 3
    await wire.ask(CreateTopicsRequest(topics=[creating("u"), creating("v")]))
    grown = await wire.ask(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=4000, assignments=None) for name in "tuv"],
            validate_only=dry_run,
        )
    )
    assert [each.error_code for each in grown.results] == [ErrorCode.POLICY_VIOLATION] * 3
    found = (await wire.ask(MetadataRequest(topics=None))).topics
    assert sorted((each.name, len(each.partitions)) for each in found) == [("t", 2), ("u", 1), ("v", 1)]


async def test_others_have_their_turn_while_topics_are_created() -> None:
    async with Broker() as broker, connect(broker) as wire:
        topics, seen = broker._running.state.topics, [0]

        async def count() -> None:
            while True:
                seen.append(len(topics))
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        try:
            creation = CreateTopicsRequest(topics=[creating(f"a{number}") for number in range(20)])
            assert not any(topic.error_code for topic in (await wire.ask(creation)).topics)
            names = [MetadataRequestTopic(name=f"b{number}") for number in range(20)]
            found = await wire.ask(MetadataRequest(topics=names, allow_auto_topic_creation=True))
            assert not any(topic.error_code for topic in found.topics)
        finally:
            counting.cancel()
    assert seen[-1] == 40
    assert max(after - before for before, after in pairwise(seen)) == 1


async def test_delete_topics_by_name_and_id(wire: Wire) -> None:
    response = await wire.ask(DeleteTopicsRequest(topic_names=["t", "nope"], timeout_ms=1), 5)
    assert [each.error_code for each in response.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (await wire.ask(MetadataRequest(topics=None))).topics == []
    topic_id = (await wire.ask(CreateTopicsRequest(topics=[creating("t")]))).topics[0].topic_id
    topics = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=topic_id)]
    gone = await wire.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1))
    assert [each.error_code for each in gone.responses] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    assert gone.responses[0].name == "t"


async def test_a_topic_created_again_is_empty(broker: Broker, wire: Wire) -> None:
    await produce(wire, "t", batch([b"old"]))
    await wire.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    await broker.create_topic("t")
    assert (await produce(wire, "t", batch([b"new"]))).base_offset == 0


async def test_create_partitions(wire: Wire) -> None:
    for count, error in [(2, ErrorCode.INVALID_PARTITIONS), (5, ErrorCode.NONE)]:
        topic = CreatePartitionsTopic(name="t", count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False)
        assert (await wire.ask(request)).results[0].error_code == error
    assert (await produce(wire, "t", batch([b"x"]), partition=4)).error_code == 0


async def test_options_of_topics(wire: Wire) -> None:
    async def described() -> dict[str, tuple[str | None, int]]:
        resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
        (result,) = (await wire.ask(DescribeConfigsRequest(resources=[resource]))).results
        return {entry.name: (entry.value, entry.config_source) for entry in result.configs}

    async def alter(operation: int, name: str, value: str | None) -> int:
        change = AlterableConfig(name=name, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        return (await wire.ask(request)).responses[0].error_code

    assert (await described())["retention.ms"] == ("604800000", 5)
    assert await alter(0, "retention.ms", "7") == 0
    assert await alter(2, "cleanup.policy", "compact") == 0
    assert await alter(0, "retention.ms", "x") == ErrorCode.INVALID_CONFIG
    assert await alter(2, "retention.ms", "x") == ErrorCode.INVALID_CONFIG
    changed = await described()
    assert (changed["retention.ms"], changed["cleanup.policy"]) == (("7", 1), ("delete,compact", 1))
    assert await alter(1, "retention.ms", None) == 0
    assert (await described())["retention.ms"] == ("604800000", 5)


async def test_options_of_the_broker() -> None:
    async with Broker(config={"message.max.bytes": 500}) as broker, connect(broker) as wire:
        resource = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=["message.max.bytes"])
        for version in range(5):
            (result,) = (await wire.ask(DescribeConfigsRequest(resources=[resource]), version)).results
            (entry,) = result.configs
            assert (entry.value, entry.read_only, entry.config_source) == ("500", False, 4 if version else -1)


async def test_describe_cluster(wire: Wire) -> None:
    for version in range(3):
        response = await wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), version)
        assert ([broker.broker_id for broker in response.brokers], response.controller_id) == ([0], 0)


async def test_creating_an_existing_topic_in_a_test_raises_the_error_that_clients_catch() -> None:
    async with Broker() as broker:
        await broker.create_topic("t")
        with pytest.raises(TopicExistsError, match="'t' already exists"):
            await broker.create_topic("t")
