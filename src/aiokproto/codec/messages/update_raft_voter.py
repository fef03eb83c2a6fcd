"""UpdateRaftVoter (ApiKey 82): change the endpoints or feature range of a voter."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class CurrentLeader(Struct):
    leader_id: BrokerId = -1
    leader_epoch: int32 = -1
    host: string = ""
    port: int32 = 0


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: CurrentLeader = field(tag=0, factory=CurrentLeader)


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class UpdateRaftVoterRequest(
    Request[UpdateRaftVoterResponse], key=82, versions="0", flexible="0+", route=Route.CONTROLLER
):
    cluster_id: string | None = ""
    current_leader_epoch: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    listeners: list[Listener] = field(factory=list)
    kraft_version_feature: KRaftVersionFeature = field(factory=KRaftVersionFeature)
