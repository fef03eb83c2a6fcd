"""The records of ``__cluster_metadata`` about the cluster as a whole, and the quorum file of a node (KIP-500)."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    Payload,
    ProducerId,
    Struct,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class FeatureLevelRecord(Payload, versions="0", flexible="0+"):
    name: string = ""
    feature_level: int16 = 0


class RemoveFeatureLevelRecord(Payload, versions="0", flexible="0+"):
    name: string = ""


class ConfigRecord(Payload, versions="0", flexible="0+"):
    resource_type: int8 = 0
    resource_name: string = ""
    name: string = ""
    value: string | None = ""


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class ClientQuotaRecord(Payload, versions="0", flexible="0+"):
    entity: list[EntityData] = field(factory=list)
    key: string = ""
    value: float64 = 0.0
    remove: bool = False


class QuotaRecord(Payload, versions="0"):
    entity: list[EntityData] = field(factory=list)
    key: string = ""
    value: float64 = 0.0
    remove: bool = False


class ProducerIdsRecord(Payload, versions="0", flexible="0+"):
    broker_id: BrokerId = 0
    broker_epoch: int64 = -1
    next_producer_id: ProducerId = 0


class BeginTransactionRecord(Payload, versions="0", flexible="0+"):
    name: string | None = field(tag=0, default=None)


class EndTransactionRecord(Payload, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(Payload, versions="0", flexible="0+"):
    reason: string | None = field(tag=0, default=None)


class NoOpRecord(Payload, versions="0", flexible="0+"):
    pass


class ZkMigrationStateRecord(Payload, versions="0", flexible="0+"):
    zk_migration_state: int8 = 0


class Voter(Struct):
    voter_id: int32 = 0


class QuorumStateData(Payload, versions="0-1", flexible="0+"):
    cluster_id: string = field("0", default="")
    leader_id: BrokerId = -1
    leader_epoch: int32 = -1
    voted_id: int32 = -1
    voted_directory_id: uuid = field("1+", default=ZERO_UUID)
    applied_offset: int64 = field("0", default=0)
    current_voters: list[Voter] | None = field("0", factory=list)
