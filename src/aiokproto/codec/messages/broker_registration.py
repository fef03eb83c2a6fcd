"""BrokerRegistration (ApiKey 62): a broker enters the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    Request,
    Response,
    Route,
    Struct,
    field,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class Feature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class BrokerRegistrationRequest(
    Request[BrokerRegistrationResponse], key=62, versions="0-4", flexible="0+", route=Route.CONTROLLER
):
    broker_id: BrokerId = 0
    cluster_id: string = ""
    incarnation_id: uuid = ZERO_UUID
    listeners: list[Listener] = field(factory=list)
    features: list[Feature] = field(factory=list)
    rack: string | None = ""
    is_migrating_zk_broker: bool = field("1+", default=False)
    log_dirs: list[uuid] = field("2+", factory=list, ignorable=True)
    previous_broker_epoch: int64 = field("3+", default=-1, ignorable=True)
