"""Keys and values of control records: transaction markers, and the control records of KRaft."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, Struct, field, int16, int32, int64, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class ControlRecordTypeSchema(Payload, versions="0"):
    """Key of a control record."""

    type: int16 = 0
    """0: ABORT; 1: COMMIT; 2: leader change; 3: snapshot header; 4: snapshot footer; 5: KRaft version; 6: voters."""


class EndTxnMarker(Payload, versions="0"):
    """Value of a transaction marker."""

    coordinator_epoch: int32 = 0
    """Epoch of the transaction coordinator that wrote the marker."""


class KRaftVersionRecord(Payload, versions="0", flexible="0+"):
    """Finalized `kraft.version` of the quorum (KIP-853)."""

    version: int16 = 0
    """Version of this record."""
    kraft_version: int16 = 0
    """0: static voters; 1: voters are records in the log."""


class LeaderChangeMessageVoter(Struct):
    """A voter."""

    voter_id: int32 = 0
    """Node id of the voter."""
    voter_directory_id: uuid = field("1+", default=ZERO_UUID)
    """Id of the voter's metadata log directory; zero: unknown."""


class LeaderChangeMessage(Payload, versions="0-1", flexible="0+"):
    """First record of each new KRaft leader (KIP-595)."""

    version: int16 = 0
    """Version of this record."""
    leader_id: BrokerId = 0
    """Node id of the new leader."""
    voters: list[LeaderChangeMessageVoter] = field(factory=list)
    granting_voters: list[LeaderChangeMessageVoter] = field(factory=list)


class SnapshotFooterRecord(Payload, versions="0", flexible="0+"):
    """Last record of a snapshot (KIP-630)."""

    version: int16 = 0
    """Version of this record."""


class SnapshotHeaderRecord(Payload, versions="0", flexible="0+"):
    """First record of a snapshot (KIP-630)."""

    version: int16 = 0
    """Version of this record."""
    last_contained_log_timestamp: int64 = 0
    """Timestamp of the last log record that the snapshot covers, in ms since 1970."""


class Endpoint(Struct):
    """A listener of the voter."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class KRaftVersionFeature(Struct):
    """The `kraft.version` levels that the voter supports."""

    min_supported_version: int16 = 0
    """Lowest level supported."""
    max_supported_version: int16 = 0
    """Highest level supported."""


class VotersRecordVoter(Struct):
    """A voter."""

    voter_id: BrokerId = 0
    """Node id of the voter."""
    voter_directory_id: uuid = ZERO_UUID
    """Id of the voter's metadata log directory; zero: unknown."""
    endpoints: list[Endpoint] = field(factory=list)
    kraft_version_feature: KRaftVersionFeature = field(factory=KRaftVersionFeature)


class VotersRecord(Payload, versions="0", flexible="0+"):
    """The voters of the quorum (KIP-853)."""

    version: int16 = 0
    """Version of this record."""
    voters: list[VotersRecordVoter] = field(factory=list)
