"""The config record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int8, string


class ConfigRecord(Payload, versions="0", flexible="0+"):
    resource_type: int8 = 0
    resource_name: string = ""
    name: string = ""
    value: string | None = ""
