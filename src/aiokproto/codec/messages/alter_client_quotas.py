"""AlterClientQuotas (ApiKey 49): set or remove quotas."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, float64, int16, int32, string


class EntityData(Struct):
    entity_type: string
    entity_name: string | None


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int16
    error_message: string | None
    entity: list[EntityData]


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int32
    entries: list[AlterClientQuotasResponseEntryData]


class OpData(Struct):
    key: string
    value: float64
    remove: bool


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(
    Request[AlterClientQuotasResponse], key=49, versions="0-1", flexible="1+", route=Route.CONTROLLER
):
    entries: list[AlterClientQuotasRequestEntryData]
    validate_only: bool
