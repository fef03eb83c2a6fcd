"""The records of ``__cluster_metadata`` about brokers and controllers (KIP-500, KIP-631)."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, Struct, field, int8, int16, int32, int64, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class BrokerEndpoint(Struct):
    """Address of a broker's listener."""

    name: string = ""
    """Name of the listener."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""
    security_protocol: int16 = 0
    """0: PLAINTEXT; 1: SSL; 2: SASL_PLAINTEXT; 3: SASL_SSL."""


class BrokerFeature(Struct):
    """Levels of a feature that the broker supports."""

    name: string = ""
    """Name of the feature, such as `metadata.version`."""
    min_supported_version: int16 = 0
    """Lowest level supported."""
    max_supported_version: int16 = 0
    """Highest level supported."""


class RegisterBrokerRecord(Payload, versions="0-4", flexible="0+"):
    """A broker registered, or registered again after a restart."""

    broker_id: BrokerId = 0
    """Id of the broker."""
    is_migrating_zk_broker: bool = field("2+", default=False)
    """Whether the broker still stores its metadata in ZooKeeper, during a migration (KIP-866)."""
    incarnation_id: uuid = ZERO_UUID
    """Id of the broker's process, new at each start."""
    broker_epoch: int64 = 0
    """Epoch of the registration, higher with each one."""
    end_points: list[BrokerEndpoint] = field(factory=list)
    """Listeners of the broker."""
    features: list[BrokerFeature] = field(factory=list)
    """Features that the broker supports."""
    rack: string | None = ""
    """Rack of the broker (`broker.rack`); null: none configured."""
    fenced: bool = True
    """Whether the broker is fenced: clients do not get its address, and it leads no partition."""
    in_controlled_shutdown: bool = field("1+", default=False)
    """Whether the broker is shutting down and handing over its leaderships."""
    log_dirs: list[uuid] = field("3+", tag=0, factory=list)
    """Ids of the log directories that are online (KIP-858)."""
    cordoned_log_dirs: list[uuid] | None = field("4+", tag=1, default=None)
    """Ids of log directories that receive no new replicas (KIP-1066); null: none."""


class UnregisterBrokerRecord(Payload, versions="0", flexible="0+"):
    """The registration of a broker was removed."""

    broker_id: BrokerId = 0
    """Id of the broker."""
    broker_epoch: int64 = 0
    """Epoch of the registration that ends."""


class BrokerRegistrationChangeRecord(Payload, versions="0-3", flexible="0+"):
    """The state of a registered broker changed. Fields at their defaults are unchanged."""

    broker_id: BrokerId = 0
    """Id of the broker."""
    broker_epoch: int64 = 0
    """Epoch of the broker's registration."""
    fenced: int8 = field(tag=0, default=0)
    """1: the broker was fenced; -1: unfenced; 0: unchanged."""
    in_controlled_shutdown: int8 = field("1+", tag=1, default=0)
    """1: the broker is shutting down; 0: unchanged. Only a new registration ends the shutdown."""
    log_dirs: list[uuid] = field("2+", tag=2, factory=list)
    """Ids of the log directories that are online (KIP-858); empty: unchanged."""
    cordoned_log_dirs: list[uuid] | None = field("3+", tag=3, default=None)
    """Ids of log directories that receive no new replicas (KIP-1066); null: unchanged."""


class FenceBrokerRecord(Payload, versions="0", flexible="0+"):
    """A broker was fenced. `BrokerRegistrationChangeRecord` replaces this record since metadata version 3.3-IV2."""

    id: int32 = 0
    """Id of the broker."""
    epoch: int64 = 0
    """Epoch of the broker's registration."""


class UnfenceBrokerRecord(Payload, versions="0", flexible="0+"):
    """A broker was unfenced. `BrokerRegistrationChangeRecord` replaces this record since metadata version 3.3-IV2."""

    id: int32 = 0
    """Id of the broker."""
    epoch: int64 = 0
    """Epoch of the broker's registration."""


class ControllerEndpoint(Struct):
    """Address of a controller's listener."""

    name: string = ""
    """Name of the listener."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""
    security_protocol: int16 = 0
    """0: PLAINTEXT; 1: SSL; 2: SASL_PLAINTEXT; 3: SASL_SSL."""


class ControllerFeature(Struct):
    """Levels of a feature that the controller supports."""

    name: string = ""
    """Name of the feature, such as `metadata.version`."""
    min_supported_version: int16 = 0
    """Lowest level supported."""
    max_supported_version: int16 = 0
    """Highest level supported."""


class RegisterControllerRecord(Payload, versions="0", flexible="0+"):
    """A controller of the quorum registered (KIP-919)."""

    controller_id: int32 = 0
    """Node id of the controller."""
    incarnation_id: uuid = ZERO_UUID
    """Id of the controller's process, new at each start."""
    zk_migration_ready: bool = False
    """Whether the controller is configured for the migration from ZooKeeper (KIP-866)."""
    end_points: list[ControllerEndpoint] = field(factory=list)
    """Listeners of the controller."""
    features: list[ControllerFeature] = field(factory=list)
    """Features that the controller supports."""


class UnregisterControllerRecord(Payload, versions="0", flexible="0+"):
    """The registration of a controller was removed."""

    controller_id: int32 = 0
    """Node id of the controller."""
