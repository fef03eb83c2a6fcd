"""DescribeClientQuotas (ApiKey 48): the quotas that match a filter."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, float64, int8, int16, int32, string


class EntityData(Struct):
    """One part of a quota's entity, such as a user."""

    entity_type: string = ""
    """`user`, `client-id` or `ip`."""
    entity_name: string | None = ""
    """Name of the entity; null: the default entity of its type."""


class ValueData(Struct):
    """A quota and its value."""

    key: string = ""
    """Quota name, such as `producer_byte_rate`."""
    value: float64 = 0.0
    """Value, in the quota's own unit (bytes/s, percent, requests/s)."""


class EntryData(Struct):
    """An entity and its quotas."""

    entity: list[EntityData] = field(factory=list)
    values: list[ValueData] = field(factory=list)


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    """The quotas of each matching entity. Errors: see `DescribeClientQuotasRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    entries: list[EntryData] | None = field(factory=list)


class ComponentData(Struct):
    """A condition on one part of the entity."""

    entity_type: string = ""
    """`user`, `client-id` or `ip`."""
    match_type: int8 = 0
    """0: the name in `match`; 1: the default entity; 2: any name."""
    match: string | None = ""
    """Name to match; null for match types 1 and 2."""


class DescribeClientQuotasRequest(
    Request[DescribeClientQuotasResponse], key=48, versions="0-1", flexible="1+", route=Route.ANY
):
    """List quotas of users, client ids and IP addresses (KIP-546).

    Sent by admin tools to any broker.

    Errors: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, UNSUPPORTED_VERSION.
    """

    components: list[ComponentData] = field(factory=list)
    strict: bool = False
    """True: exclude entities with types that aren't among the components."""
