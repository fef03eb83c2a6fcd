"""RemoveRaftVoter (ApiKey 81): remove a voter from the metadata quorum (KIP-853)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int16, int32, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    """Sent once the quorum has committed the new voter set. Errors: see `RemoveRaftVoterRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class RemoveRaftVoterRequest(
    Request[RemoveRaftVoterResponse], key=81, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Remove a controller from the voters of the metadata quorum.

    Sent by admin tools to the active controller; a broker forwards it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE,
    INVALID_REQUEST, VOTER_NOT_FOUND, UNSUPPORTED_VERSION (kraft.version 0: the voters are static), REQUEST_TIMED_OUT
    (another change is pending, or the quorum did not commit in time), UNKNOWN_SERVER_ERROR.
    """

    cluster_id: string | None = ""
    """Id of the cluster; otherwise INCONSISTENT_CLUSTER_ID. null: not checked."""
    voter_id: int32 = 0
    """Node id of the voter."""
    voter_directory_id: uuid = ZERO_UUID
    """Id of the voter's metadata log directory: both ids must match."""
