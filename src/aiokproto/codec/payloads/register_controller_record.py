"""The register controller record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


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
