"""ShareGroupHeartbeat (ApiKey 76): join, stay in and leave a share group (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class ShareGroupHeartbeatResponse(Response, key=76, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    member_id: string | None = field(default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = field(default=None)


class ShareGroupHeartbeatRequest(
    Request[ShareGroupHeartbeatResponse], key=76, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_id: string
    member_id: string
    member_epoch: int32
    rack_id: string | None = field(default=None)
    subscribed_topic_names: list[string] | None = field(default=None)
