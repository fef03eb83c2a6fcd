"""AddRaftVoter (ApiKey 80): add a voter to the metadata quorum."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class AddRaftVoterRequest(Request[AddRaftVoterResponse], key=80, versions="0-1", flexible="0+", route=Route.CONTROLLER):
    cluster_id: string | None = ""
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    listeners: list[Listener] = field(factory=list)
    ack_when_committed: bool = field("1+", default=True)
