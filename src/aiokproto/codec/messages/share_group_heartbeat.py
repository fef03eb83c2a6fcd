"""ShareGroupHeartbeat (ApiKey 76): join, stay in and leave a share group (KIP-932)."""

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
    partitions: list[PartitionIndex] = field(factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(factory=list)


class ShareGroupHeartbeatResponse(Response, key=76, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None


class ShareGroupHeartbeatRequest(
    Request[ShareGroupHeartbeatResponse], key=76, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_id: GroupId = ""
    member_id: string = ""
    member_epoch: int32 = 0
    rack_id: string | None = None
    subscribed_topic_names: list[TopicName] | None = field(default=None, mentioned=True)
