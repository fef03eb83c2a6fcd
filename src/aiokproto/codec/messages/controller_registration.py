"""ControllerRegistration (ApiKey 70): a controller enters the quorum's records."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, int16, int32, string, uint16, uuid


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None


class Listener(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class Feature(Struct):
    name: string
    min_supported_version: int16
    max_supported_version: int16


class ControllerRegistrationRequest(
    Request[ControllerRegistrationResponse], key=70, versions="0", flexible="0+", route=Route.CONTROLLER
):
    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: bool
    listeners: list[Listener]
    features: list[Feature]
