"""UpdateRaftVoter (ApiKey 82): change the endpoints or feature range of a voter."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid


class CurrentLeader(Struct):
    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)
    host: string = field(default="")
    port: int32 = field(default=0)


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    current_leader: CurrentLeader = field(tag=0, factory=CurrentLeader)


class Listener(Struct):
    name: string
    host: string
    port: uint16


class KRaftVersionFeature(Struct):
    min_supported_version: int16
    max_supported_version: int16


class UpdateRaftVoterRequest(
    Request[UpdateRaftVoterResponse], key=82, versions="0", flexible="0+", route=Route.CONTROLLER
):
    cluster_id: string | None
    current_leader_epoch: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature
