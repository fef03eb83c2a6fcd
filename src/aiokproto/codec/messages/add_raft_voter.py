"""AddRaftVoter (ApiKey 80): add a voter to the metadata quorum."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    """Whether the voter was added. Errors: see `AddRaftVoterRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class Listener(Struct):
    """A controller listener of the new voter."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class AddRaftVoterRequest(Request[AddRaftVoterResponse], key=80, versions="0-1", flexible="0+", route=Route.CONTROLLER):
    """Add a controller to the voters of the metadata quorum (KIP-853).

    Sent by admin tools, and by controllers that join on their own, to the leader of the quorum; brokers forward it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE (the
    leader is shutting down), INVALID_REQUEST, DUPLICATE_VOTER, UNSUPPORTED_VERSION, REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR.
    """

    cluster_id: string | None = ""
    """Cluster id that the leader must have; null: not checked."""
    timeout_ms: int32 = 0
    """How long the receiver may take, in ms."""
    voter_id: int32 = 0
    """Node id of the new voter."""
    voter_directory_id: uuid = ZERO_UUID
    """Id of the new voter's metadata log directory."""
    listeners: list[Listener] = field(factory=list)
    ack_when_committed: bool = field("1+", default=True)
    """True: respond when the new voter set is committed; false: as soon as the leader has appended it."""
