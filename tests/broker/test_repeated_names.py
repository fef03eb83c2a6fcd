"""A request that repeats a name gets it once: a name is a few bytes, but it can stand for a megabyte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.broker import Broker
from aiokproto.codec.frames import decode_response
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.describe_producers import DescribeProducersRequest, TopicRequest
from aiokproto.codec.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from aiokproto.codec.messages.share_group_describe import ShareGroupDescribeRequest
from aiokproto.codec.messages.streams_group_describe import StreamsGroupDescribeRequest
from aiokproto.codec.schema import Request
from tests.broker.wire import Wire, connect

PARTITIONS = 20

Made = Callable[[int], "tuple[Request[Any], int]"]
"""Makes a request that repeats a name a number of times, and returns its version too."""


def configs(kind: int, name: str) -> Made:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return lambda times: (DescribeConfigsRequest(resources=[resource] * times, include_synonyms=True), 4)


def offsets(group: OffsetFetchRequestGroup) -> Made:
    return lambda times: (OffsetFetchRequest(groups=[group] * times), 8)


REQUESTS: dict[str, Made] = {
    "Metadata": lambda times: (MetadataRequest(topics=[MetadataRequestTopic(name="t")] * times), 9),
    "DescribeConfigs of a topic": configs(2, "t"),
    "DescribeConfigs of a broker": configs(4, "0"),
    "DescribeGroups": lambda times: (DescribeGroupsRequest(groups=["g"] * times), 5),
    "ConsumerGroupDescribe": lambda times: (ConsumerGroupDescribeRequest(group_ids=["g"] * times), 1),
    "ShareGroupDescribe": lambda times: (ShareGroupDescribeRequest(group_ids=["g"] * times), 1),
    "StreamsGroupDescribe": lambda times: (StreamsGroupDescribeRequest(group_ids=["g"] * times), 0),
    "OffsetFetch of all topics": offsets(OffsetFetchRequestGroup(group_id="g", topics=None)),
    "OffsetFetch of groups": offsets(
        OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=list(range(PARTITIONS)))]
        )
    ),
    "OffsetFetch of partitions": lambda times: (
        OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0] * times)]),
        5,
    ),
    "DescribeShareGroupOffsets": lambda times: (
        DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)] * times
        ),
        0,
    ),
    "DescribeTransactions": lambda times: (DescribeTransactionsRequest(transactional_ids=["x"] * times), 0),
    "DescribeProducers of topics": lambda times: (
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])] * times),
        0,
    ),
    "DescribeProducers of partitions": lambda times: (
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0] * times)]),
        0,
    ),
}


async def prepare(wire: Wire) -> None:
    """Create a group with offsets, and an open transaction."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="x" * 1000)
        for index in range(PARTITIONS)
    ]
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)],
    )
    assert (await wire.ask(commit, 8)).topics[0].partitions[0].error_code == 0
    producer = await wire.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(range(PARTITIONS)))],
    )
    assert (await wire.ask(added, 3)).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_is_named_again_is_described_once(name: str) -> None:
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t", partitions=PARTITIONS)
        await prepare(wire)
        answers = []
        for times in (1, 50):
            request, version = REQUESTS[name](times)
            wire.send(request, version)
            frame = await wire.frame()
            answers.append(len(frame))
            decode_response(frame, request.response, version)
        # Repeated topics and groups around the name may take some bytes themselves.
        assert answers[1] <= answers[0] + 50 * 12, answers


async def test_different_options_of_a_topic_are_described() -> None:
    """A resource is looked up once for all of them."""
    names = ["retention.ms", "cleanup.policy"]
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=[name]) for name in names
    ]
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t")
        found = await wire.ask(DescribeConfigsRequest(resources=resources), 4)
    assert [[entry.name for entry in each.configs] for each in found.results] == [[name] for name in names]
