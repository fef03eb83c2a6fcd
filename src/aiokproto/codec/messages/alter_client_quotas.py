"""AlterClientQuotas (ApiKey 49): set or remove quotas."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, float64, int16, int32, string


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    entity: list[EntityData] = field(factory=list)


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(factory=list)


class OpData(Struct):
    key: string = ""
    value: float64 = 0.0
    remove: bool = False


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData] = field(factory=list)
    ops: list[OpData] = field(factory=list)


class AlterClientQuotasRequest(
    Request[AlterClientQuotasResponse], key=49, versions="0-1", flexible="1+", route=Route.CONTROLLER
):
    entries: list[AlterClientQuotasRequestEntryData] = field(factory=list)
    validate_only: bool = False
