"""RemoveRaftVoter (ApiKey 81): remove a voter from the metadata quorum."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int16, int32, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class RemoveRaftVoterRequest(
    Request[RemoveRaftVoterResponse], key=81, versions="0", flexible="0+", route=Route.CONTROLLER
):
    cluster_id: string | None = ""
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
