"""ShareGroupDescribe (ApiKey 77): state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    field,
    int16,
    int32,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class TopicPartitions(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(factory=list)


class Member(Struct):
    member_id: string = ""
    rack_id: string | None = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[TopicName] = field(factory=list, mentioned=True)
    assignment: Assignment = field(factory=Assignment)


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    group_id: GroupId = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: string = ""
    members: list[Member] = field(factory=list)
    authorized_operations: int32 = -2147483648


class ShareGroupDescribeResponse(Response, key=77, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(factory=list)


class ShareGroupDescribeRequest(
    Request[ShareGroupDescribeResponse], key=77, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_ids: list[GroupId] = field(factory=list)
    include_authorized_operations: bool = False
