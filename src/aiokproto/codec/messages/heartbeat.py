"""Heartbeat (ApiKey 12): keep a member in a classic group, and report a rebalance to it."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, field, int16, int32, string


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+", client_throttles="2+"):
    """Whether the member is still in the group, and its generation is current. Errors: see `HeartbeatRequest`."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0


class HeartbeatRequest(Request[HeartbeatResponse], key=12, versions="0-4", flexible="4+", route=Route.GROUP):
    """Keep the member's session alive.

    Sent by members of a classic group to the group coordinator, several times per session timeout.

    Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, UNKNOWN_MEMBER_ID,
    ILLEGAL_GENERATION, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS (join again).
    """

    group_id: GroupId = ""
    """Group of the member."""
    generation_id: int32 = 0
    """Generation the member joined."""
    member_id: string = ""
    """Id that JoinGroup returned to the member."""
    group_instance_id: string | None = field("3+", default=None)
    """`group.instance.id` of a static member (KIP-345); null: dynamic."""
