"""UpdateRaftVoter (ApiKey 82): update the endpoints and supported versions of a voter (KIP-853)."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class CurrentLeader(Struct):
    """The leader to send the request to instead."""

    leader_id: BrokerId = -1
    """Node id of the quorum leader; -1: unknown."""
    leader_epoch: int32 = -1
    """Newest epoch the responding node knows; -1: unknown."""
    host: string = ""
    """Host name or address of the leader; empty: unknown."""
    port: int32 = 0
    """TCP port."""


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    """Sent once the quorum has committed the change. Errors: see `UpdateRaftVoterRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: CurrentLeader = field(tag=0, factory=CurrentLeader)
    """The quorum leader, as the responding controller knows it."""


class Listener(Struct):
    """Address of a listener of the voter."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class KRaftVersionFeature(Struct):
    """Versions of `kraft.version` the voter supports."""

    min_supported_version: int16 = 0
    """Lowest level, inclusive."""
    max_supported_version: int16 = 0
    """Highest level, inclusive."""


class UpdateRaftVoterRequest(
    Request[UpdateRaftVoterResponse], key=82, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Update a voter's entry in the voter set.

    Sent by the voter itself (a controller) to the quorum leader, when its endpoints or supported versions have changed.

    Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INVALID_REQUEST, VOTER_NOT_FOUND, UNSUPPORTED_VERSION, REQUEST_TIMED_OUT
    (another change is pending, or the quorum did not commit in time).
    """

    cluster_id: string | None = ""
    """Id of the cluster; otherwise INCONSISTENT_CLUSTER_ID. null: not checked."""
    current_leader_epoch: int32 = 0
    """Leader epoch the voter knows; FENCED_LEADER_EPOCH if it's lower than the broker's, UNKNOWN_LEADER_EPOCH if it's
    higher. -1: unknown."""
    voter_id: int32 = 0
    """Node id of the voter."""
    voter_directory_id: uuid = ZERO_UUID
    """Id of the voter's metadata log directory."""
    listeners: list[Listener] = field(factory=list)
    """All controller endpoints of the voter."""
    kraft_version_feature: KRaftVersionFeature = field(factory=KRaftVersionFeature)
    """Versions of `kraft.version` the voter supports."""
