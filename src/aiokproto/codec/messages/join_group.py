"""JoinGroup (ApiKey 11): enter a classic group, or enter its next generation."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class JoinGroupResponseMember(Struct):
    member_id: string = ""
    group_instance_id: string | None = field("5+", default=None, ignorable=True)
    metadata: bytes = b""


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+", client_throttles="3+"):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: string | None = field("7+", default=None, ignorable=True)
    protocol_name: string | None = field(nullable="7+", default="")
    leader: string = ""
    skip_assignment: bool = field("9+", default=False)
    member_id: string = ""
    members: list[JoinGroupResponseMember] = field(factory=list)


class JoinGroupRequestProtocol(Struct):
    name: string = ""
    metadata: bytes = b""


class JoinGroupRequest(Request[JoinGroupResponse], key=11, versions="0-9", flexible="6+", route=Route.GROUP):
    group_id: GroupId = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    member_id: string = ""
    group_instance_id: string | None = field("5+", default=None)
    protocol_type: string = ""
    protocols: list[JoinGroupRequestProtocol] = field(factory=list)
    reason: string | None = field("8+", default=None, ignorable=True)
