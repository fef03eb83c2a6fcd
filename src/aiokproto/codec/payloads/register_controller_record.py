"""The register controller record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int16, int32, string, uint16, uuid


class ControllerEndpoint(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class ControllerFeature(Struct):
    name: string
    min_supported_version: int16
    max_supported_version: int16


class RegisterControllerRecord(Payload, versions="0", flexible="0+"):
    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]
