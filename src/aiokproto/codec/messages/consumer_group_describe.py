"""ConsumerGroupDescribe (ApiKey 69): state, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string, uuid


class TopicPartitions(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class Member(Struct):
    member_id: string
    instance_id: string | None = field(default=None)
    rack_id: string | None = field(default=None)
    member_epoch: int32
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None = field(default=None)
    assignment: Assignment
    target_assignment: Assignment
    member_type: int8 = field("1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: int16
    error_message: string | None = field(default=None)
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    assignor_name: string
    members: list[Member]
    authorized_operations: int32 = field(default=-2147483648)


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    groups: list[DescribedGroup]


class ConsumerGroupDescribeRequest(
    Request[ConsumerGroupDescribeResponse], key=69, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_ids: list[string]
    include_authorized_operations: bool
