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
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class Assignment(Struct):
    """The partitions of one member."""

    topic_partitions: list[TopicPartitions] = field(factory=list)


class Member(Struct):
    """A member of the group."""

    member_id: string = ""
    """Id of the member."""
    instance_id: string | None = None
    """Static member id (`group.instance.id`, KIP-345); null: a dynamic member."""
    rack_id: string | None = None
    """Rack of the member; null: none."""
    member_epoch: int32 = 0
    """Epoch of the member's current assignment; it reaches the group epoch when the rebalance is complete for this
    member."""
    client_id: string = ""
    """Client id of the member's requests."""
    client_host: string = ""
    """Address that the member connects from."""
    subscribed_topic_names: list[TopicName] = field(factory=list, mentioned=True)
    """Topics that the member named in its subscription."""
    subscribed_topic_regex: string | None = None
    """RE2 pattern of topic names that the member subscribed to; null: none."""
    assignment: Assignment = field(factory=Assignment)
    """Partitions that the member owns now."""
    target_assignment: Assignment = field(factory=Assignment)
    """Partitions that the member will own when the rebalance is complete."""
    member_type: int8 = field("1+", default=-1, ignorable=True)
    """0: classic protocol; 1: consumer protocol; -1: unknown (KIP-1099)."""


class DescribedGroup(Struct):
    """A group, or the error from describing it."""

    error_code: int16 = 0
    error_message: string | None = None
    group_id: GroupId = ""
    """The group."""
    group_state: string = ""
    """`Empty`, `Assigning`, `Reconciling`, `Stable` or `Dead`."""
    group_epoch: int32 = 0
    """Epoch that grows with each change of members or subscriptions."""
    assignment_epoch: int32 = 0
    """Group epoch that the target assignment was computed for."""
    assignor_name: string = ""
    """Server-side assignor that the group uses."""
    members: list[Member] = field(factory=list)
    authorized_operations: int32 = -2147483648
    """Bit field of operations that the caller is authorized for; -2147483648: not requested."""


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    """One description per group. Errors: see `ConsumerGroupDescribeRequest`."""

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(factory=list)


class ConsumerGroupDescribeRequest(
    Request[ConsumerGroupDescribeResponse], key=69, versions="0-1", flexible="0+", route=Route.GROUP
):
    """Describe consumer groups that use the protocol of KIP-848. DescribeGroups describes classic groups.

    Sent by admin tools to the groups' coordinators.

    Errors: per group: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND,
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNSUPPORTED_VERSION
    (the protocol is disabled).
    """

    group_ids: list[GroupId] = field(factory=list)
    """Groups to describe."""
    include_authorized_operations: bool = False
    """True: return the operations that the caller is authorized for."""
