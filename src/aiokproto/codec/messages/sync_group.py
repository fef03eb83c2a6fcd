"""SyncGroup (ApiKey 14): the group's leader hands in the assignment, every member receives its part."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+", client_throttles="2+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignment: bytes = b""


class SyncGroupRequestAssignment(Struct):
    member_id: string = ""
    assignment: bytes = b""


class SyncGroupRequest(Request[SyncGroupResponse], key=14, versions="0-5", flexible="4+", route=Route.GROUP):
    group_id: GroupId = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = field("3+", default=None)
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(factory=list)
