"""LeaveGroup (ApiKey 13): leave a classic group at once."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class MemberResponse(Struct):
    member_id: string = field(default="", key=True)
    group_instance_id: string | None = field(default="", key=True)
    error_code: int16 = 0


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+", client_throttles="2+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    members: list[MemberResponse] = field("3+", factory=list)


class MemberIdentity(Struct):
    member_id: string = field(default="", key=True)
    group_instance_id: string | None = field(default=None, key=True)
    reason: string | None = field("5+", default=None, ignorable=True)


class LeaveGroupRequest(Request[LeaveGroupResponse], key=13, versions="0-5", flexible="4+", route=Route.GROUP):
    group_id: GroupId = ""
    member_id: string = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", factory=list)
