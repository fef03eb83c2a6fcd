"""SyncGroup (ApiKey 14): the group's leader hands in the assignment, every member receives its part."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignment: bytes


class SyncGroupRequestAssignment(Struct):
    member_id: string
    assignment: bytes


class SyncGroupRequest(Request[SyncGroupResponse], key=14, versions="0-5", flexible="4+", route=Route.GROUP):
    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field("3+", default=None)
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]
