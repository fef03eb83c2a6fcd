"""A member of a share group, and admin requests about share groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from aiokproto.error_codes import ErrorCode
from tests.behaviour.coordinator import Coordinator


class ShareMember:
    """A member that follows its assignment, one heartbeat at a time."""

    def __init__(self, at: Coordinator, member_id: str, *topics: str, **fields: Any) -> None:
        self.at = at
        self.member_id = member_id
        self.topics = topics
        self.fields = fields
        self.epoch = 0
        self.assigned: dict[bytes, list[int]] = {}

    @property
    def partitions(self) -> list[int]:
        return sorted(index for indexes in self.assigned.values() for index in indexes)

    async def beat(self) -> ShareGroupHeartbeatResponse:
        fields = {"subscribed_topic_names": list(self.topics), **self.fields} if self.epoch == 0 else {}
        answer = await heartbeat(self.at, self.member_id, self.epoch, **fields)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return answer

    async def leave(self) -> None:
        answer = await heartbeat(self.at, self.member_id, -1)
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, self.member_id, -1)
        self.epoch, self.assigned = 0, {}


async def until(condition: Callable[[], bool], *members: ShareMember) -> None:
    while not condition():
        for member in members:
            await member.beat()


async def heartbeat(at: Coordinator, member_id: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id=fields.pop("group_id", at.group), member_id=member_id, member_epoch=epoch, **fields
    )
    return await at.ask(request, lambda answer: answer.error_code)


async def describe(at: Coordinator) -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=[at.group], include_authorized_operations=True)
    return (await at.ask(request, lambda answer: answer.groups[0].error_code)).groups[0]


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
    answer = (await at.ask(request, lambda answer: answer.groups[0].error_code, version)).groups[0]
    assert answer.error_code == 0
    assert {each.error_code for topic in answer.topics for each in topic.partitions} <= {0}
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
        for topic in answer.topics
        for each in topic.partitions
    }


async def alter(at: Coordinator, topic: str, starts: Mapping[int, int]) -> AlterShareGroupOffsetsResponse:
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
        for index, start in starts.items()
    ]
    requested_topic = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    request = AlterShareGroupOffsetsRequest(group_id=at.group, topics=[requested_topic])
    return await at.ask(request, lambda answer: answer.error_code)


async def alter_when_known(at: Coordinator, topic: str, starts: Mapping[int, int]) -> AlterShareGroupOffsetsResponse:
    """Set offsets once the coordinator knows the topic, which in a real cluster is a little after the others."""
    while True:
        answer = await alter(at, topic, starts)
        if answer.responses[0].partitions[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return answer


async def delete(at: Coordinator, *topics: str) -> DeleteShareGroupOffsetsResponse:
    requested_topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    request = DeleteShareGroupOffsetsRequest(group_id=at.group, topics=requested_topics)
    return await at.ask(request, lambda answer: answer.error_code)
