"""JoinGroup (ApiKey 11): join a classic group, or its next generation."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class JoinGroupResponseMember(Struct):
    """A member, for the leader's assignor."""

    member_id: string = ""
    """Id of the member."""
    group_instance_id: string | None = field("5+", default=None, ignorable=True)
    """`group.instance.id` of a static member; null: dynamic."""
    metadata: bytes = b""
    """The member's metadata for the chosen protocol; for consumers, a ConsumerProtocolSubscription."""


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+", client_throttles="3+"):
    """The generation the member is in. It arrives when all members have joined, or the rebalance timeout has passed.

    Errors: see `JoinGroupRequest`.
    """

    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    error_code: int16 = 0
    generation_id: int32 = -1
    """Generation the member joined; -1: an error."""
    protocol_type: string | None = field("7+", default=None, ignorable=True)
    """Protocol type of the group; null: an error."""
    protocol_name: string | None = field(nullable="7+", default="")
    """Assignor that the coordinator chose. All members support it. null (version 7+) or empty: an error."""
    leader: string = ""
    """Member id of the leader, which assigns the partitions."""
    skip_assignment: bool = field("9+", default=False)
    """True: the leader doesn't send an assignment, and the group keeps its old one (KIP-814: a static leader
    rejoined)."""
    member_id: string = ""
    """Id of the member; with MEMBER_ID_REQUIRED, the id to join again with."""
    members: list[JoinGroupResponseMember] = field(factory=list)
    """All members, for the leader; empty for the other members."""


class JoinGroupRequestProtocol(Struct):
    """An assignor the member supports."""

    name: string = ""
    """Name of the assignor."""
    metadata: bytes = b""
    """What the assignor needs to know about the member; for consumers, a ConsumerProtocolSubscription."""


class JoinGroupRequest(Request[JoinGroupResponse], key=11, versions="0-9", flexible="6+", route=Route.GROUP):
    """Join a classic group, or rejoin it for a new generation.

    Sent by members to the group coordinator. Followed by SyncGroup.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_AUTHORIZATION_FAILED, GROUP_MAX_SIZE_REACHED, INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED (version 4+: join again with the returned id, KIP-394), UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """

    group_id: GroupId = ""
    """Group to join."""
    session_timeout_ms: int32 = 0
    """The coordinator removes the member after this long without a heartbeat, in ms."""
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    """How long a rebalance waits for the member to rejoin, in ms; -1 (version 0): the session timeout."""
    member_id: string = ""
    """Id from an earlier response; empty: a new member."""
    group_instance_id: string | None = field("5+", default=None)
    """`group.instance.id` of a static member (KIP-345); null: dynamic."""
    protocol_type: string = ""
    """Kind of group: "consumer" for consumers, "connect" for Connect workers. All members have the same."""
    protocols: list[JoinGroupRequestProtocol] = field(factory=list)
    """Assignors the member supports, preferred first."""
    reason: string | None = field("8+", default=None, ignorable=True)
    """Why the member joins, for the broker's log (KIP-800); null: not given."""
