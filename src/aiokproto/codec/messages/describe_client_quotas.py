"""DescribeClientQuotas (ApiKey 48): the quotas that match a filter."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, float64, int8, int16, int32, string


class EntityData(Struct):
    entity_type: string
    entity_name: string | None


class ValueData(Struct):
    key: string
    value: float64


class EntryData(Struct):
    entity: list[EntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    entries: list[EntryData] | None


class ComponentData(Struct):
    entity_type: string
    match_type: int8
    match: string | None


class DescribeClientQuotasRequest(
    Request[DescribeClientQuotasResponse], key=48, versions="0-1", flexible="1+", route=Route.ANY
):
    components: list[ComponentData]
    strict: bool
