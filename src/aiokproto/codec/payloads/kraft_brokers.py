"""The records of ``__cluster_metadata`` about brokers and controllers (KIP-500, KIP-631)."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, Struct, field, int8, int16, int32, int64, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class BrokerEndpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class BrokerFeature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class RegisterBrokerRecord(Payload, versions="0-4", flexible="0+"):
    broker_id: BrokerId = 0
    is_migrating_zk_broker: bool = field("2+", default=False)
    incarnation_id: uuid = ZERO_UUID
    broker_epoch: int64 = 0
    end_points: list[BrokerEndpoint] = field(factory=list)
    features: list[BrokerFeature] = field(factory=list)
    rack: string | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = field("1+", default=False)
    log_dirs: list[uuid] = field("3+", tag=0, factory=list)
    cordoned_log_dirs: list[uuid] | None = field("4+", tag=1, default=None)


class UnregisterBrokerRecord(Payload, versions="0", flexible="0+"):
    broker_id: BrokerId = 0
    broker_epoch: int64 = 0


class BrokerRegistrationChangeRecord(Payload, versions="0-3", flexible="0+"):
    broker_id: BrokerId = 0
    broker_epoch: int64 = 0
    fenced: int8 = field(tag=0, default=0)
    in_controlled_shutdown: int8 = field("1+", tag=1, default=0)
    log_dirs: list[uuid] = field("2+", tag=2, factory=list)
    cordoned_log_dirs: list[uuid] | None = field("3+", tag=3, default=None)


class FenceBrokerRecord(Payload, versions="0", flexible="0+"):
    id: int32 = 0
    epoch: int64 = 0


class UnfenceBrokerRecord(Payload, versions="0", flexible="0+"):
    id: int32 = 0
    epoch: int64 = 0


class ControllerEndpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class ControllerFeature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class RegisterControllerRecord(Payload, versions="0", flexible="0+"):
    controller_id: int32 = 0
    incarnation_id: uuid = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = field(factory=list)
    features: list[ControllerFeature] = field(factory=list)


class UnregisterControllerRecord(Payload, versions="0", flexible="0+"):
    controller_id: int32 = 0
