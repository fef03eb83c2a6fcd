"""BrokerRegistration (ApiKey 62): a broker enters the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uint16, uuid


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    broker_epoch: int64 = field(default=-1)


class Listener(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class Feature(Struct):
    name: string
    min_supported_version: int16
    max_supported_version: int16


class BrokerRegistrationRequest(
    Request[BrokerRegistrationResponse], key=62, versions="0-4", flexible="0+", route=Route.CONTROLLER
):
    broker_id: int32
    cluster_id: string
    incarnation_id: uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: string | None
    is_migrating_zk_broker: bool = field("1+", default=False)
    log_dirs: list[uuid] = field("2+", factory=list, ignorable=True)
    previous_broker_epoch: int64 = field("3+", default=-1, ignorable=True)
