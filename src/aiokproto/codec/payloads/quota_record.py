"""The quota record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, float64, string


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class QuotaRecord(Payload, versions="0"):
    entity: list[EntityData] = field(factory=list)
    key: string = ""
    value: float64 = 0.0
    remove: bool = False
