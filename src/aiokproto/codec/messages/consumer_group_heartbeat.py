"""ConsumerGroupHeartbeat (ApiKey 68): join, stay in and leave a consumer group that uses the consumer protocol
(KIP-848)."""

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
    """The partitions that a member can own."""

    topic_partitions: list[TopicPartitions] = field(factory=list)


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    """The member's epoch, and its assignment when that changed. Errors: see `ConsumerGroupHeartbeatRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    """Id of the member; null: an error, or the coordinator doesn't repeat the id."""
    member_epoch: int32 = 0
    """Epoch that the member must use in its next requests."""
    heartbeat_interval_ms: int32 = 0
    """Time until the next heartbeat is due, in ms."""
    assignment: Assignment | None = None
    """Partitions that the member can own now; null: unchanged."""


class ConsumerGroupHeartbeatRequest(
    Request[ConsumerGroupHeartbeatResponse], key=68, versions="0-1", flexible="0+", route=Route.GROUP
):
    """Join a consumer group, stay in it, acknowledge an assignment, or leave (KIP-848).

    Sent by consumers with `group.protocol=consumer` to the group's coordinator.

    Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNSUPPORTED_ASSIGNOR,
    UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, GROUP_ID_NOT_FOUND,
    INVALID_REGULAR_EXPRESSION, UNSUPPORTED_VERSION (the protocol is disabled).
    """

    group_id: GroupId = ""
    """The group."""
    member_id: string = ""
    """UUID that the member chose (version 1 and later); empty when joining in version 0, where the coordinator chooses
    it."""
    member_epoch: int32 = 0
    """Epoch of the last response; 0: join; -1: leave; -2: a static member leaves temporarily."""
    instance_id: string | None = None
    """Static member id (`group.instance.id`, KIP-345); null: a dynamic member."""
    rack_id: string | None = None
    """Rack of the member; null: unchanged, or none when joining."""
    rebalance_timeout_ms: int32 = -1
    """Time that the member has to revoke partitions, in ms; -1: unchanged."""
    subscribed_topic_names: list[TopicName] | None = field(default=None, mentioned=True)
    """Topics to subscribe to; null: unchanged."""
    subscribed_topic_regex: string | None = field("1+", default=None)
    """RE2 pattern of topic names to subscribe to; null: unchanged; empty: none."""
    server_assignor: string | None = None
    """Server-side assignor to use, such as `uniform`; null: unchanged, or the coordinator's choice."""
    topic_partitions: list[TopicPartitions] | None = None
    """Partitions that the member owns; null: unchanged."""
