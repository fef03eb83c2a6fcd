"""ControllerRegistration (ApiKey 70): a controller enters the quorum's records."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class Feature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class ControllerRegistrationRequest(
    Request[ControllerRegistrationResponse], key=70, versions="0", flexible="0+", route=Route.CONTROLLER
):
    controller_id: int32 = 0
    incarnation_id: uuid = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = field(factory=list)
    features: list[Feature] = field(factory=list)
