"""The configured quotas, and the choice of the quota that applies to a client (KIP-546).

The most specific quota applies, in this order: user and client id, user and default client id, user; then the same for
the default user; then client id, default client id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from aiokproto.broker.addresses import parse_address
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

USER, CLIENT_ID, IP = "user", "client-id", "ip"
QuotaType = Literal[
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
]

_OF_CLIENTS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_OF_ADDRESSES = ("connection_creation_rate",)
_WHOLE = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")
_MAX_VALUES = {
    "producer_byte_rate": (1 << 63) - 1,
    "consumer_byte_rate": (1 << 63) - 1,
    "connection_creation_rate": (1 << 31) - 1,
}

MAX_ENTITIES = 100_000
"""Maximum number of entities with quotas."""

Entity = frozenset[tuple[str, "str | None"]]
"""The entity of a quota: pairs of type and name. The name None is the default for names that don't have their own
quota."""

EXACT, DEFAULT, ANY = 0, 1, 2


class FilterComponent(NamedTuple):
    """One component of a DescribeClientQuotas filter: an entity type with a name (EXACT), the default, or any name."""

    kind: str
    match: int
    name: str | None


class ApplicableQuota(NamedTuple):
    """The quota that applies to a client, and the key that is the same for all clients sharing the quota.

    Attributes:
        limit: The limit.
        user: The user that the quota is for; empty if the quota is for a client id only.
        client_id: The client id that the quota is for; empty if the quota is for all clients of a user.
    """

    limit: float
    user: str
    client_id: str


class ClientQuotas:
    """All configured quotas."""

    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._quotas)

    # ---- changes

    def alter(
        self, entity: Sequence[tuple[str, str | None]], changes: Sequence[tuple[str, float | None]], *, dry_run: bool
    ) -> None:
        """Set quotas of an entity. None removes a quota.

        Raises:
            BrokerError: INVALID_REQUEST with the reason, or POLICY_VIOLATION. Nothing is changed.
        """
        keys = _check_entity(entity)
        known = _entity(entity)
        if len({key for key, _ in changes}) < len(changes):
            raise _invalid("Duplicate quota key, not updating quota for this entity")
        for key, value in changes:
            if value is not None:
                _check_quota(key, value, keys)
        quotas = dict(self._quotas.get(known, {}))
        for key, value in changes:
            if value is None:
                quotas.pop(key, None)
            else:
                quotas[key] = value
        if dry_run:
            return
        if not quotas:
            self._quotas.pop(known, None)
        elif known not in self._quotas and len(self._quotas) >= MAX_ENTITIES:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION, detail=f"{MAX_ENTITIES} entities have quotas, which is the limit"
            )
        else:
            self._quotas[known] = quotas

    # ---- queries

    def describe(
        self, components: Sequence[FilterComponent], *, strict: bool
    ) -> list[tuple[Entity, Mapping[str, float]]]:
        """Return the entities that match all components, and their quotas. ``strict`` excludes entities that have other
        types too.

        Raises:
            BrokerError: INVALID_REQUEST or UNSUPPORTED_VERSION, with the reason.
        """
        _check_components(components)
        components = [part._replace(name=_name(part.kind, part.name)) for part in components]
        return [
            (entity, quotas)
            for entity, quotas in self._quotas.items()
            if (not strict or len(entity) == len(components)) and all(_matches(part, entity) for part in components)
        ]

    def quota_for(self, key: QuotaType, user: str, client_id: str) -> ApplicableQuota | None:
        """Return the most specific quota that applies to a client, or None."""
        for name in (user, None):
            for client in (client_id, None):
                limit = self._get(key, (USER, name), (CLIENT_ID, client))
                if limit is not None:
                    return ApplicableQuota(limit, user, client_id)
            limit = self._get(key, (USER, name))
            if limit is not None:
                return ApplicableQuota(limit, user, "")
        for client in (client_id, None):
            limit = self._get(key, (CLIENT_ID, client))
            if limit is not None:
                return ApplicableQuota(limit, "", client_id)
        return None

    def for_address(self, key: QuotaType, address: str) -> float | None:
        """Return the quota of an IP address, or None."""
        own = self._get(key, (IP, _name(IP, address)))
        return own if own is not None else self._get(key, (IP, None))

    def _get(self, key: QuotaType, *entity: tuple[str, str | None]) -> float | None:
        return self._quotas.get(frozenset(entity), {}).get(key)

    # ---- persistence

    def to_json(self) -> Iterator[dict[str, object]]:
        """Return a snapshot of all quotas, for JSON. It can be iterated later, in any thread."""
        # Copying the items is enough, because an entity's quotas are replaced, never changed.
        return ({"entity": sorted(entity), "quotas": quotas} for entity, quotas in list(self._quotas.items()))

    def load_json(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Load what :meth:`to_json` returned. Raises TypeError, KeyError or ValueError if that is invalid."""
        for entry in entries:
            entity, quotas = entry["entity"], entry["quotas"]
            if not isinstance(entity, list) or not isinstance(quotas, dict):
                raise TypeError("a quota needs an entity (list) and quotas (object)")
            self._quotas[_entity((str(kind), name) for kind, name in entity)] = {
                str(key): float(value) for key, value in quotas.items()
            }


def _entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    return frozenset((kind, _name(kind, name)) for kind, name in parts)


# Needed for each connection. Clients with many addresses evict other clients' entries.
@lru_cache(4096)
def _name(kind: str, name: str | None) -> str | None:
    """Return a name in the form used for looking up quotas: an address can be written in several ways."""
    if kind != IP or name is None:
        return name
    try:
        return str(parse_address(name))
    except ValueError:
        return name


def _check_entity(entity: Sequence[tuple[str, str | None]]) -> tuple[str, ...]:
    """Check an entity, and return its valid quota types."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    kinds = {kind for kind, _ in entity}
    if len(kinds) < len(entity):
        raise _invalid("Invalid client quota entity, duplicate entity entry")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in kinds:
        return _OF_CLIENTS
    if len(kinds) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    for _, name in entity:
        if name is not None and not _is_address(name):
            raise _invalid(f"{name} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _is_address(name: str) -> bool:
    try:
        parse_address(name)
    except ValueError:
        return False
    return True


def _check_quota(key: str, value: float, keys: Sequence[str]) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        raise _invalid(f"QuotaType {key} must be greater than 0")
    if value > _MAX_VALUES.get(key, value):
        raise _invalid(f"Proposed value for {key} is too large")
    if key in _WHOLE and abs(value % 1.0) > 1e-6:
        raise _invalid(f"{key} cannot be a fractional value.")


def _check_components(components: Sequence[FilterComponent]) -> None:
    kinds = [component.kind for component in components]
    for component in components:
        if not component.kind:
            raise _invalid("Invalid empty entity type.")
        if kinds.count(component.kind) > 1:
            raise _invalid(f"Entity type {component.kind} cannot appear more than once in the filter.")
        if component.kind not in (USER, CLIENT_ID, IP):
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, detail=f"Unsupported entity type {component.kind}")
        if component.match not in (EXACT, DEFAULT, ANY):
            raise _invalid(f"Unknown match type {component.match}")
        if (component.match == EXACT) == (component.name is None):
            raise _invalid("A match string is required for exact matches, and not allowed for others")
    if IP in kinds and len(kinds) > 1:
        raise _invalid("Invalid entity filter component combination: ip cannot be combined with user or client-id")


def _matches(component: FilterComponent, entity: Entity) -> bool:
    if component.match == ANY:
        return any(kind == component.kind for kind, _ in entity)
    return (component.kind, component.name) in entity


def _invalid(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, detail=text)
