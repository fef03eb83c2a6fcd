"""ConsumerGroupDescribe (ApiKey 69): state, members and assignments of consumer groups (KIP-848)."""

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
    int8,
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
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[TopicName] = field(factory=list, mentioned=True)
    subscribed_topic_regex: string | None = None
    assignment: Assignment = field(factory=Assignment)
    target_assignment: Assignment = field(factory=Assignment)
    member_type: int8 = field("1+", default=-1, ignorable=True)


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


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(factory=list)


class ConsumerGroupDescribeRequest(
    Request[ConsumerGroupDescribeResponse], key=69, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_ids: list[GroupId] = field(factory=list)
    include_authorized_operations: bool = False
