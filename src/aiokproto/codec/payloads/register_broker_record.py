"""The register broker record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int16, int32, int64, string, uint16, uuid


class BrokerEndpoint(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class BrokerFeature(Struct):
    name: string
    min_supported_version: int16
    max_supported_version: int16


class RegisterBrokerRecord(Payload, versions="0-4", flexible="0+"):
    broker_id: int32
    is_migrating_zk_broker: bool = field("2+", default=False)
    incarnation_id: uuid
    broker_epoch: int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: string | None
    fenced: bool = field(default=True)
    in_controlled_shutdown: bool = field("1+", default=False)
    log_dirs: list[uuid] = field("3+", tag=0, factory=list)
    cordoned_log_dirs: list[uuid] | None = field("4+", tag=1, default=None)
