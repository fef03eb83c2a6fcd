"""SyncGroup (ApiKey 14): distribute the leader's assignment to the members of a classic group."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+", client_throttles="2+"):
    """The member's part of the assignment. It arrives once the leader has sent the assignment.

    Errors: see `SyncGroupRequest`.
    """

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    """Protocol type of the group; null: an error."""
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    """Assignor of the generation; null: an error."""
    assignment: bytes = b""
    """The member's assignment; for consumers, a ConsumerProtocolAssignment. Empty: nothing assigned, or an error."""


class SyncGroupRequestAssignment(Struct):
    """The assignment of one member."""

    member_id: string = ""
    """Id of the member."""
    assignment: bytes = b""
    """The member's assignment; for consumers, a ConsumerProtocolAssignment."""


class SyncGroupRequest(Request[SyncGroupResponse], key=14, versions="0-5", flexible="4+", route=Route.GROUP):
    """Complete a rebalance: the leader sends the assignment, and all members receive their part.

    Sent by members of a classic group to the group coordinator, after JoinGroup.

    Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, UNKNOWN_MEMBER_ID,
    ILLEGAL_GENERATION, FENCED_INSTANCE_ID, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS (join again).
    """

    group_id: GroupId = ""
    """Group of the member."""
    generation_id: int32 = 0
    """Generation that JoinGroup returned."""
    member_id: string = ""
    """Id that JoinGroup returned."""
    group_instance_id: string | None = field("3+", default=None)
    """`group.instance.id` of a static member (KIP-345); null: dynamic."""
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    """Protocol type that JoinGroup returned, to detect a mismatch (KIP-559); null: not checked."""
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    """Assignor that JoinGroup returned; null: not checked."""
    assignments: list[SyncGroupRequestAssignment] = field(factory=list)
    """Assignment of every member, from the leader; empty from the other members."""
