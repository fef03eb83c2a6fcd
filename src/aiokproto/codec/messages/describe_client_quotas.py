"""DescribeClientQuotas (ApiKey 48): the quotas that match a filter."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, float64, int8, int16, int32, string


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class ValueData(Struct):
    key: string = ""
    value: float64 = 0.0


class EntryData(Struct):
    entity: list[EntityData] = field(factory=list)
    values: list[ValueData] = field(factory=list)


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    entries: list[EntryData] | None = field(factory=list)


class ComponentData(Struct):
    entity_type: string = ""
    match_type: int8 = 0
    match: string | None = ""


class DescribeClientQuotasRequest(
    Request[DescribeClientQuotasResponse], key=48, versions="0-1", flexible="1+", route=Route.ANY
):
    components: list[ComponentData] = field(factory=list)
    strict: bool = False
