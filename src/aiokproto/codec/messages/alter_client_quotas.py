"""AlterClientQuotas (ApiKey 49): set or remove quotas."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, float64, int16, int32, string


class EntityData(Struct):
    """One part of a quota's entity, such as a user."""

    entity_type: string = ""
    """`user`, `client-id` or `ip`."""
    entity_name: string | None = ""
    """Name of the entity; null: the default entity of its type."""


class AlterClientQuotasResponseEntryData(Struct):
    """The result of one entity."""

    error_code: int16 = 0
    error_message: string | None = ""
    entity: list[EntityData] = field(factory=list)


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    """One result per entity. Errors: see `AlterClientQuotasRequest`."""

    throttle_time_ms: int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(factory=list)


class OpData(Struct):
    """One quota to set or remove."""

    key: string = ""
    """Quota name, such as `producer_byte_rate`."""
    value: float64 = 0.0
    """New value, in the quota's own unit (bytes/s, percent, requests/s); ignored when `remove` is true."""
    remove: bool = False
    """True: remove the quota, so the default applies; false: set it."""


class AlterClientQuotasRequestEntryData(Struct):
    """An entity and the changes of its quotas."""

    entity: list[EntityData] = field(factory=list)
    ops: list[OpData] = field(factory=list)


class AlterClientQuotasRequest(
    Request[AlterClientQuotasResponse], key=49, versions="0-1", flexible="1+", route=Route.CONTROLLER
):
    """Set or remove quotas of users, client ids and IP addresses (KIP-546).

    Sent by admin tools to the controller; brokers forward it.

    Errors: per entity: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, NOT_CONTROLLER, UNSUPPORTED_VERSION.
    """

    entries: list[AlterClientQuotasRequestEntryData] = field(factory=list)
    validate_only: bool = False
    """True: only check the request, without changing anything."""
