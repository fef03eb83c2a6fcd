"""The access control record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int8, string


class AccessControlRecord(Payload, versions="0", flexible="0+"):
    resource_type: int8 = 0
    resource_name: string | None = ""
    pattern_type: int8 = 0
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0
