"""ShareGroupDescribe (ApiKey 77): state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid


class TopicPartitions(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class Member(Struct):
    member_id: string
    rack_id: string | None = field(default=None)
    member_epoch: int32
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    assignment: Assignment


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


class ShareGroupDescribeResponse(Response, key=77, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    groups: list[DescribedGroup]


class ShareGroupDescribeRequest(
    Request[ShareGroupDescribeResponse], key=77, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_ids: list[string]
    include_authorized_operations: bool
