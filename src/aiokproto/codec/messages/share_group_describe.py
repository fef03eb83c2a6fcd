"""ShareGroupDescribe (ApiKey 77): describe share groups: state, members and assignments (KIP-932)."""

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
    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class Assignment(Struct):
    """Partitions that a member reads."""

    topic_partitions: list[TopicPartitions] = field(factory=list)


class Member(Struct):
    """A member of the group."""

    member_id: string = ""
    """Id of the member."""
    rack_id: string | None = None
    """Rack of the member (`client.rack`); null: unknown."""
    member_epoch: int32 = 0
    """Group epoch of the member's current assignment."""
    client_id: string = ""
    """`client.id` of the member."""
    client_host: string = ""
    """Address the member connected from."""
    subscribed_topic_names: list[TopicName] = field(factory=list, mentioned=True)
    assignment: Assignment = field(factory=Assignment)
    """Partitions assigned to the member."""


class DescribedGroup(Struct):
    """A group: its state and members."""

    error_code: int16 = 0
    error_message: string | None = None
    group_id: GroupId = ""
    """Id of the group."""
    group_state: string = ""
    """State: "Empty", "Stable" or "Dead"; empty: an error."""
    group_epoch: int32 = 0
    """Epoch of the members and their subscriptions, which grows with each change."""
    assignment_epoch: int32 = 0
    """Group epoch that the assignment was computed for; lower than `group_epoch` while a new one is pending."""
    assignor_name: string = ""
    """Server-side assignor in use."""
    members: list[Member] = field(factory=list)
    authorized_operations: int32 = -2147483648
    """Bit n is set if the caller is allowed AclOperation n on the group; -2147483648: not requested."""


class ShareGroupDescribeResponse(Response, key=77, versions="0-1", flexible="0+"):
    """One description per group. Errors: see `ShareGroupDescribeRequest`."""

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(factory=list)


class ShareGroupDescribeRequest(
    Request[ShareGroupDescribeResponse], key=77, versions="0-1", flexible="0+", route=Route.GROUP
):
    """Describe share groups.

    Sent by admin tools to the group coordinator of each group.

    Errors: per group: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, INVALID_REQUEST.
    """

    group_ids: list[GroupId] = field(factory=list)
    """Groups to describe."""
    include_authorized_operations: bool = False
    """True: return `authorized_operations`."""
