"""The records of ``__cluster_metadata`` about the cluster as a whole, and the quorum file of a node (KIP-500)."""

from __future__ import annotations

from aiokproto.codec.config_names import holds_secret
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
    """A feature was set to a level (KIP-584).

    The first record of a log or snapshot sets `metadata.version`, which determines the format of all other records.
    """

    name: string = ""
    """Name of the feature, such as `metadata.version`."""
    feature_level: int16 = 0
    """Level of the feature; 0: disabled."""


class RemoveFeatureLevelRecord(Payload, versions="0", flexible="0+"):
    """A feature was disabled. Replaced by a `FeatureLevelRecord` with level 0."""

    name: string = ""
    """Name of the feature."""


class ConfigRecord(Payload, versions="0", flexible="0+"):
    """An option was set or removed."""

    resource_type: int8 = 0
    """Kind of resource: 2 topic, 4 broker, 16 client metrics, 32 group."""
    resource_name: string = ""
    """Name of the resource; empty: the default of all brokers."""
    name: string = ""
    """Name of the option."""
    value: string | None = field(default="", secret=holds_secret)
    """Value of the option; null: removed."""


class EntityData(Struct):
    """One part of the entity that a quota applies to."""

    entity_type: string = ""
    """`user`, `client-id` or `ip`."""
    entity_name: string | None = ""
    """Name of the user, client id or address; null: the default of this type."""


class ClientQuotaRecord(Payload, versions="0", flexible="0+"):
    """A client quota was set or removed (KIP-546)."""

    entity: list[EntityData] = field(factory=list)
    """Parts of the entity, such as a user and a client id."""
    key: string = ""
    """Name of the quota, such as `producer_byte_rate`."""
    value: float64 = 0.0
    """Value of the quota; ignored if `remove` is set."""
    remove: bool = False
    """Whether the quota was removed."""


class QuotaRecord(Payload, versions="0"):
    """A client quota was set or removed. Replaced by `ClientQuotaRecord`."""

    entity: list[EntityData] = field(factory=list)
    """Parts of the entity, such as a user and a client id."""
    key: string = ""
    """Name of the quota, such as `producer_byte_rate`."""
    value: float64 = 0.0
    """Value of the quota; ignored if `remove` is set."""
    remove: bool = False
    """Whether the quota was removed."""


class ProducerIdsRecord(Payload, versions="0", flexible="0+"):
    """A block of producer ids was allocated to a broker (KIP-730)."""

    broker_id: BrokerId = 0
    """Broker that received the block."""
    broker_epoch: int64 = -1
    """Epoch of the broker's registration; -1: unknown."""
    next_producer_id: ProducerId = 0
    """First producer id of the next block."""


class BeginTransactionRecord(Payload, versions="0", flexible="0+"):
    """Start of a metadata transaction (KIP-868): the records up to its end take effect together."""

    name: string | None = field(tag=0, default=None)
    """Description of the transaction; null: none."""


class EndTransactionRecord(Payload, versions="0", flexible="0+"):
    """End of a metadata transaction (KIP-868): its records take effect."""


class AbortTransactionRecord(Payload, versions="0", flexible="0+"):
    """End of a metadata transaction that failed (KIP-868): its records have no effect."""

    reason: string | None = field(tag=0, default=None)
    """Why the transaction was aborted; null: not given."""


class NoOpRecord(Payload, versions="0", flexible="0+"):
    """A record without effect, which a controller writes to advance the log's high watermark (KIP-835)."""


class ZkMigrationStateRecord(Payload, versions="0", flexible="0+"):
    """State of the migration from ZooKeeper (KIP-866)."""

    zk_migration_state: int8 = 0
    """0: none, the cluster began with KRaft; 1: migration, the controller writes to both; 2: pre-migration, the
    controller waits to begin; 3: post-migration, finished. Kafka 3.4 wrote 1 for pre-migration."""


class Voter(Struct):
    """A voter of the quorum."""

    voter_id: int32 = 0
    """Node id of the voter."""


class QuorumStateData(Payload, versions="0-1", flexible="0+"):
    """The file `quorum-state` of a KRaft node: its epoch and its vote, which must survive a restart (KIP-595)."""

    cluster_id: string = field("0", default="")
    """Always empty."""
    leader_id: BrokerId = -1
    """Node id of the leader in this epoch; -1: unknown."""
    leader_epoch: int32 = -1
    """Latest epoch the node knows; -1: none."""
    voted_id: int32 = -1
    """Node id of the candidate the node voted for in this epoch; -1: none."""
    voted_directory_id: uuid = field("1+", default=ZERO_UUID)
    """Id of the candidate's metadata log directory (KIP-853); zero: unknown."""
    applied_offset: int64 = field("0", default=0)
    """Always 0."""
    current_voters: list[Voter] | None = field("0", factory=list)
    """Voters as of the last write; null: unknown. In version 1, they are in the log (`VotersRecord`)."""
