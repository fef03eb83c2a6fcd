"""The register broker record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, Struct, field, int16, int64, string, uint16, uuid
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
