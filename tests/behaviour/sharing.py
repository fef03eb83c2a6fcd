"""Admin requests about share groups."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.codec.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from aiokproto.codec.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from aiokproto.codec.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from aiokproto.codec.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from aiokproto.error_codes import ErrorCode
from tests.behaviour.coordinator import Coordinator


async def describe(at: Coordinator) -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=[at.group], include_authorized_operations=True)
    return (await at.ask(request, lambda response: response.groups[0].error_code)).groups[0]


async def offsets(
    at: Coordinator, topics: Mapping[str, list[int]] | None = None, version: int | None = None
) -> dict[tuple[str, int], tuple[int, int]]:
    """Start offset and lag of each partition."""
    requested = (
        None
        if topics is None
        else [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=each) for name, each in topics.items()]
    )
    group = DescribeShareGroupOffsetsRequestGroup(group_id=at.group, topics=requested)
    request = DescribeShareGroupOffsetsRequest(groups=[group])
    response = (await at.ask(request, lambda response: response.groups[0].error_code, version)).groups[0]
    assert response.error_code == 0
    assert {each.error_code for topic in response.topics for each in topic.partitions} <= {0}
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
        for topic in response.topics
        for each in topic.partitions
    }


async def alter(at: Coordinator, topic: str, starts: Mapping[int, int]) -> AlterShareGroupOffsetsResponse:
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
        for index, start in starts.items()
    ]
    requested_topic = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    request = AlterShareGroupOffsetsRequest(group_id=at.group, topics=[requested_topic])
    return await at.ask(request, lambda response: response.error_code)


async def alter_when_known(at: Coordinator, topic: str, starts: Mapping[int, int]) -> AlterShareGroupOffsetsResponse:
    """Set offsets once the coordinator knows the topic, which in a real cluster is a little after the others."""
    while True:
        response = await alter(at, topic, starts)
        if response.responses[0].partitions[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return response


async def delete(at: Coordinator, *topics: str) -> DeleteShareGroupOffsetsResponse:
    requested_topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    request = DeleteShareGroupOffsetsRequest(group_id=at.group, topics=requested_topics)
    return await at.ask(request, lambda response: response.error_code)
