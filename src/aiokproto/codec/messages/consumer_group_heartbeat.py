"""ConsumerGroupHeartbeat (ApiKey 68): join, stay in and leave a consumer group of the broker-side kind (KIP-848)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    member_id: string | None = field(default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = field(default=None)


class ConsumerGroupHeartbeatRequest(
    Request[ConsumerGroupHeartbeatResponse], key=68, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_id: string
    member_id: string
    member_epoch: int32
    instance_id: string | None = field(default=None)
    rack_id: string | None = field(default=None)
    rebalance_timeout_ms: int32 = field(default=-1)
    subscribed_topic_names: list[string] | None = field(default=None)
    subscribed_topic_regex: string | None = field("1+", default=None)
    server_assignor: string | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(default=None)
