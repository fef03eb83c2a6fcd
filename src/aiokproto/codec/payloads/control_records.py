"""Keys and values of control records: transaction markers and those of KRaft."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int16, int32, int64, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class ControlRecordTypeSchema(Payload, versions="0"):
    type: int16


class EndTxnMarker(Payload, versions="0"):
    coordinator_epoch: int32


class KRaftVersionRecord(Payload, versions="0", flexible="0+"):
    version: int16
    kraft_version: int16


class LeaderChangeMessageVoter(Struct):
    voter_id: int32
    voter_directory_id: uuid = field("1+", default=ZERO_UUID)


class LeaderChangeMessage(Payload, versions="0-1", flexible="0+"):
    version: int16
    leader_id: int32
    voters: list[LeaderChangeMessageVoter]
    granting_voters: list[LeaderChangeMessageVoter]


class SnapshotFooterRecord(Payload, versions="0", flexible="0+"):
    version: int16


class SnapshotHeaderRecord(Payload, versions="0", flexible="0+"):
    version: int16
    last_contained_log_timestamp: int64


class Endpoint(Struct):
    name: string
    host: string
    port: uint16


class KRaftVersionFeature(Struct):
    min_supported_version: int16
    max_supported_version: int16


class VotersRecordVoter(Struct):
    voter_id: int32
    voter_directory_id: uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature


class VotersRecord(Payload, versions="0", flexible="0+"):
    version: int16
    voters: list[VotersRecordVoter]
