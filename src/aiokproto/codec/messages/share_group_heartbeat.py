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
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class Assignment(Struct):
    """The partitions to fetch from. Other members can fetch from them too."""

    topic_partitions: list[TopicPartitions] = field(factory=list)


class ShareGroupHeartbeatResponse(Response, key=76, versions="0-1", flexible="0+"):
    """Epoch of the member, and its assignment if that has changed. Errors: see `ShareGroupHeartbeatRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    """Id of the member, as in the request; null: an error."""
    member_epoch: int32 = 0
    """Epoch to send with the next heartbeat; -1: the member has left."""
    heartbeat_interval_ms: int32 = 0
    """Time until the next heartbeat, in ms."""
    assignment: Assignment | None = None
    """New assignment; null: unchanged."""


class ShareGroupHeartbeatRequest(
    Request[ShareGroupHeartbeatResponse], key=76, versions="0-1", flexible="0+", route=Route.GROUP
):
    """Join a share group, stay in it, or leave it.

    Sent by share consumers to the group coordinator, every `heartbeat_interval_ms` and when their subscription changes.
    If heartbeats stop, the member is removed.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    INVALID_REQUEST.
    """

    group_id: GroupId = ""
    """Group of the member."""
    member_id: string = ""
    """UUID that the member generates and uses until it closes."""
    member_epoch: int32 = 0
    """Epoch of the previous response; 0: join; -1: leave."""
    rack_id: string | None = None
    """Rack of the member (`client.rack`); null: unknown, or unchanged."""
    subscribed_topic_names: list[TopicName] | None = field(default=None, mentioned=True)
    """Topics the member subscribes to; null: unchanged."""
