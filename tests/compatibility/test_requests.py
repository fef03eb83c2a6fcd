"""Requests of any kind to brokers of every age, and what is known of their versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiokproto import Client, Producer
from aiokproto.codec import registry
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.describe_log_dirs import DescribeLogDirsRequest
from aiokproto.codec.messages.describe_producers import DescribeProducersRequest, TopicRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.list_transactions import ListTransactionsRequest
from aiokproto.codec.releases import RELEASES, release_like, versions_of
from aiokproto.codec.schema import Request
from tests.compatibility.matrix import At, row
from tests.kafka.releases import number

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

AREA = "Requests with `Client`"
TOPIC = 2
ONLY_KRAFT = {55, 57, 60, 64, 65, 71, 72, 74, 75, 80, 81}
"""APIs that brokers with ZooKeeper lack, or whose features are off by default, in releases that have them."""


def named(release: str) -> str:
    """The release as in the table of versions: "2.8" for 2.8.2, "0.10.2" for 0.10.2.2."""
    parts = release.split(".")
    short = ".".join(parts[: 3 if parts[0] == "0" else 2])
    return short if short in RELEASES else ".".join(parts[:2])


def codes(part: Any) -> set[int]:
    """Every error code in a response."""
    found = set()
    for name, value in vars(part).items() if hasattr(part, "__dict__") else fields(part):
        if name in ("error_code", "partition_error_code"):
            found.add(value)
        elif isinstance(value, list):
            found |= {code for each in value if hasattr(each, "fields") for code in codes(each)}
    return found


def fields(part: Any) -> list[tuple[str, Any]]:
    return [(spec.name, getattr(part, spec.name)) for spec in part.fields()]


async def asked(at: At, make: Callable[[], Request[Any]], **options: Any) -> Any:
    """Send a request about a topic that exists, and return the response, which has no error."""
    async with Producer(**at.options) as producer:
        await producer.send(at.topic, b"0", partition=0)
    async with Client(**at.options) as client:
        response = await client.request(make(), **options)
    assert codes(response) <= {0}, response
    return response


@row(AREA, "metadata of a topic")
async def test_metadata(at: At) -> None:
    async with Producer(**at.options) as producer:
        await producer.send(at.topic, b"0", partition=0)
    async with Client(**at.options) as client:
        topics = await client.metadata([at.topic])
        assert len(topics[at.topic].partitions) == 2


@row(AREA, "the versions of a broker are found out without an option")
async def test_a_broker_is_recognized(at: At) -> None:
    async with Client(bootstrap_servers=at.servers) as client:
        assert client.brokers or number(at.release) < (0, 9)


@row(AREA, "a broker's versions are those of its release")
async def test_versions(at: At) -> None:
    async with Client(**at.options) as client:
        (node,) = list(client.brokers) or [-1]
        ranges = {
            registry.lookup(f"{name}Request").api_key: versions  # type: ignore[attr-defined]
            for name, versions in (await client.versions(node)).items()
        }
    known = versions_of(named(at.release))
    for key, theirs in known.items():
        # Brokers list early-access versions only where they are enabled, and KRaft's own APIs only with KRaft.
        if key in ranges:
            assert (ranges[key].lowest, ranges[key].highest) == (theirs.lowest, theirs.highest), registry.api_name(key)
        else:
            assert key in ONLY_KRAFT or key >= 68, registry.api_name(key)
    assert versions_of(release_like(ranges)).items() >= {
        key: versions for key, versions in known.items() if key <= 47
    }.items() or release_like(ranges) == named(at.release)


@row(AREA, "ListGroups, DescribeGroups", "0.9", "needs")
async def test_groups(at: At) -> None:
    await asked(at, ListGroupsRequest)
    await asked(at, lambda: DescribeGroupsRequest(groups=["none"]), max_version=5)


@row(AREA, "CreateTopics, DeleteTopics", "0.10.1", "needs")
async def test_create_and_delete_topics(at: At) -> None:
    new = f"{at.topic}-new"
    topic = CreatableTopic(name=new, num_partitions=1, replication_factor=1)
    await asked(at, lambda: CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
    await asked(at, lambda: DeleteTopicsRequest(topic_names=[new], timeout_ms=20_000), max_version=5)


@row(AREA, "DescribeConfigs", "0.11", "needs")
async def test_describe_configs(at: At) -> None:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=at.topic, configuration_keys=None)
    response = await asked(at, lambda: DescribeConfigsRequest(resources=[resource]))
    assert response.results[0].configs


@row(AREA, "DeleteRecords", "0.11", "needs")
async def test_delete_records(at: At) -> None:
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    topics = [DeleteRecordsTopic(name=at.topic, partitions=[part])]
    response = await asked(at, lambda: DeleteRecordsRequest(topics=topics, timeout_ms=20_000))
    assert response.topics[0].partitions[0].low_watermark == 1


@row(AREA, "CreatePartitions", "1.0", "needs")
async def test_create_partitions(at: At) -> None:
    topic = CreatePartitionsTopic(name=at.topic, count=3, assignments=None)
    await asked(at, lambda: CreatePartitionsRequest(topics=[topic], timeout_ms=20_000))


@row(AREA, "DescribeLogDirs", "1.0", "needs")
async def test_describe_log_dirs(at: At) -> None:
    response = await asked(at, lambda: DescribeLogDirsRequest(topics=None), node=1)
    assert response.results


@row(AREA, "DeleteGroups", "1.1", "needs")
async def test_delete_groups(at: At) -> None:
    async with Client(**at.options) as client:
        response = await client.request(DeleteGroupsRequest(groups_names=[at.topic]))
        # GROUP_ID_NOT_FOUND: the coordinator has looked for it.
        assert codes(response) == {69}


@row(AREA, "IncrementalAlterConfigs", "2.3", "needs")
async def test_incremental_alter_configs(at: At) -> None:
    config = AlterableConfig(name="retention.ms", value="100000000")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=at.topic, configs=[config])
    await asked(at, lambda: IncrementalAlterConfigsRequest(resources=[resource]))


@row(AREA, "DescribeCluster", "2.8", "needs")
async def test_describe_cluster(at: At) -> None:
    assert len((await asked(at, DescribeClusterRequest)).brokers) == 1


@row(AREA, "DescribeProducers", "2.8", "needs")
async def test_describe_producers(at: At) -> None:
    topics = [TopicRequest(name=at.topic, partition_indexes=[0])]
    response = await asked(at, lambda: DescribeProducersRequest(topics=topics))
    assert len(response.topics[0].partitions[0].active_producers) == 1


@row(AREA, "ListTransactions", "3.0", "needs")
async def test_list_transactions(at: At) -> None:
    if number(at.release) >= (0, 11):
        async with Producer(transactional_id=at.topic, **at.options) as producer, producer.transaction() as txn:
            await txn.send(at.topic, b"0", partition=0)
    response = await asked(at, ListTransactionsRequest)
    assert at.topic in [state.transactional_id for state in response.transaction_states]
