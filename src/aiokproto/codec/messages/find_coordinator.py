"""FindCoordinator (ApiKey 10): which broker coordinates a group, a transactional id or a share partition."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    CoordinatorKey,
    Request,
    Response,
    Route,
    Struct,
    field,
    int8,
    int16,
    int32,
    string,
)


class Coordinator(Struct):
    key: CoordinatorKey = ""
    node_id: BrokerId = field(default=0, refused=-1)
    host: string = ""
    port: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+", client_throttles="2+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = field("0-3", default=0)
    error_message: string | None = field("1-3", default="", ignorable=True)
    node_id: BrokerId = field("0-3", default=0, refused=-1)
    host: string = field("0-3", default="")
    port: int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", factory=list)


class FindCoordinatorRequest(Request[FindCoordinatorResponse], key=10, versions="0-6", flexible="3+", route=Route.ANY):
    key: CoordinatorKey = field("0-3", default="")
    key_type: int8 = field("1+", default=0)
    coordinator_keys: list[CoordinatorKey] = field("4+", factory=list)
