"""LeaveGroup (ApiKey 13): remove members from a classic group at once."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class MemberResponse(Struct):
    """The result of one member."""

    member_id: string = field(default="", key=True)
    """As in the request."""
    group_instance_id: string | None = field(default="", key=True)
    """As in the request."""
    error_code: int16 = 0


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+", client_throttles="2+"):
    """One result per member, since version 3. Errors: see `LeaveGroupRequest`."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    members: list[MemberResponse] = field("3+", factory=list)


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: string = field(default="", key=True)
    """Id of the member; empty for a static member that is identified by its instance id alone."""
    group_instance_id: string | None = field(default=None, key=True)
    """`group.instance.id` of a static member; null: dynamic."""
    reason: string | None = field("5+", default=None, ignorable=True)
    """Why the member leaves, for the broker's log (KIP-800); null: not given."""


class LeaveGroupRequest(Request[LeaveGroupResponse], key=13, versions="0-5", flexible="4+", route=Route.GROUP):
    """Leave a classic group.

    Sent by members, and by admin tools that remove static members (KIP-345), to the group coordinator, which rebalances
    the group without waiting for the session timeout.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_AUTHORIZATION_FAILED; per member (top level up to version 2): UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """

    group_id: GroupId = ""
    """Group to leave."""
    member_id: string = field("0-2", default="")
    """Id of the member, up to version 2."""
    members: list[MemberIdentity] = field("3+", factory=list)
    """Members to remove, since version 3."""
