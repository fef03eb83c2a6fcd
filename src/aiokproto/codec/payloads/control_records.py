"""Keys and values of control records: transaction markers and those of KRaft."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, Struct, field, int16, int32, int64, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class ControlRecordTypeSchema(Payload, versions="0"):
    type: int16 = 0


class EndTxnMarker(Payload, versions="0"):
    coordinator_epoch: int32 = 0


class KRaftVersionRecord(Payload, versions="0", flexible="0+"):
    version: int16 = 0
    kraft_version: int16 = 0


class LeaderChangeMessageVoter(Struct):
    voter_id: int32 = 0
    voter_directory_id: uuid = field("1+", default=ZERO_UUID)


class LeaderChangeMessage(Payload, versions="0-1", flexible="0+"):
    version: int16 = 0
    leader_id: BrokerId = 0
    voters: list[LeaderChangeMessageVoter] = field(factory=list)
    granting_voters: list[LeaderChangeMessageVoter] = field(factory=list)


class SnapshotFooterRecord(Payload, versions="0", flexible="0+"):
    version: int16 = 0


class SnapshotHeaderRecord(Payload, versions="0", flexible="0+"):
    version: int16 = 0
    last_contained_log_timestamp: int64 = 0


class Endpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class VotersRecordVoter(Struct):
    voter_id: BrokerId = 0
    voter_directory_id: uuid = ZERO_UUID
    endpoints: list[Endpoint] = field(factory=list)
    kraft_version_feature: KRaftVersionFeature = field(factory=KRaftVersionFeature)


class VotersRecord(Payload, versions="0", flexible="0+"):
    version: int16 = 0
    voters: list[VotersRecordVoter] = field(factory=list)
