"""Heartbeat (ApiKey 12): stay in a classic group, and learn of a rebalance."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, field, int16, int32, string


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+", client_throttles="2+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0


class HeartbeatRequest(Request[HeartbeatResponse], key=12, versions="0-4", flexible="4+", route=Route.GROUP):
    group_id: GroupId = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = field("3+", default=None)
