"""DescribeGroups (ApiKey 15): state and members of classic groups."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class DescribedGroupMember(Struct):
    """A member of the group."""

    member_id: string = ""
    """Id of the member."""
    group_instance_id: string | None = field("4+", default=None, ignorable=True)
    """Static member id (`group.instance.id`, KIP-345); null: a dynamic member."""
    client_id: string = ""
    """Client id of the member's requests."""
    client_host: string = ""
    """Address that the member connects from."""
    member_metadata: bytes = b""
    """Metadata of the member for the chosen protocol, as in JoinGroup; empty unless the group is stable."""
    member_assignment: bytes = b""
    """Assignment of the member, as in SyncGroup; empty unless the group is stable."""


class DescribedGroup(Struct):
    """A group, or the error from describing it."""

    error_code: int16 = 0
    error_message: string | None = field("6+", default=None)
    group_id: GroupId = ""
    """The group."""
    group_state: string = ""
    """`PreparingRebalance`, `CompletingRebalance`, `Stable`, `Empty` or `Dead`; empty: an error."""
    protocol_type: string = ""
    """Type of protocol, such as `consumer`; empty: none."""
    protocol_data: string = ""
    """Name of the chosen protocol (for consumers, the assignor); empty unless the group is stable."""
    members: list[DescribedGroupMember] = field(factory=list)
    authorized_operations: int32 = field("3+", default=-2147483648)
    """Bit field of operations that the caller is authorized for; -2147483648: not requested."""


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+", client_throttles="2+"):
    """One description per group. Errors: see `DescribeGroupsRequest`."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = field(factory=list)


class DescribeGroupsRequest(Request[DescribeGroupsResponse], key=15, versions="0-6", flexible="5+", route=Route.GROUP):
    """Describe classic groups. Up to version 5, a group that does not exist is described as `Dead`.

    Sent by admin tools to the groups' coordinators.

    Errors: per group: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND (version 6 and later),
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    """

    groups: list[GroupId] = field(factory=list)
    """Groups to describe."""
    include_authorized_operations: bool = field("3+", default=False)
    """True: return the operations that the caller is authorized for."""
