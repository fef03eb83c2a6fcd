"""Divide requests among brokers, and join the responses (pure).

Everything here reads the roles of fields (:class:`~aiokproto.codec.schema.Role`), never an API's field names, so a new
API is divided and joined as soon as its message classes are declared. A joined response is what one broker that serves
everything would have returned: each requested item once, with its result or an error code.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, TypeVar, cast

from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.codec.entities import ANY_ENTITY, Entity, NameOf, divide, entity_of, listings, merge
from aiokproto.codec.refusal import refuse
from aiokproto.codec.schema import Request, Response, Role, Route, Struct
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthenticationError,
    BrokerConnectionError,
    BrokerError,
    ConfigurationError,
    DeadlineError,
    EncodeError,
    KafkaError,
    UnsupportedVersionError,
)

R = TypeVar("R", bound=Response)

COORDINATED = {
    Route.GROUP: CoordinatorKind.GROUP,
    Route.TRANSACTION: CoordinatorKind.TRANSACTION,
    Route.SHARE: CoordinatorKind.SHARE,
}

WRONG_BROKER = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Error codes that concern the whole broker, even if every item of a response has its own error code."""

_MISROUTED = WRONG_BROKER | {ErrorCode.NOT_LEADER_OR_FOLLOWER}

_OF_BROKERS = frozenset({4, 8})
"""ConfigResource types that only the broker itself can serve: BROKER (4) and BROKER_LOGGER (8)."""

_ID_ROLES = {Route.GROUP: Role.GROUP_ID, Route.TRANSACTION: Role.TRANSACTIONAL_ID}


def coordinated(about: Entity, route: Route) -> str | None:
    """Return the group or transactional id that the route depends on."""
    return about.group if route is Route.GROUP else about.transaction


def coordinator_keys(request: Request[Any]) -> list[str | None]:
    """Return the groups or transactional ids in a request, in order.

    None is a null transactional id (InitProducerId of an idempotent producer), which any broker serves.

    Raises:
        ConfigurationError: The request contains none. (A share partition's key is spread over several fields.)
    """
    # There's no role for share partitions: their key, "group:topicId:partition", is spread over several fields.
    role = _ID_ROLES.get(request.route)
    keys = list(dict.fromkeys(_values(request, role))) if role is not None else []
    if not keys:
        raise ConfigurationError(
            f"{type(request).__name__} has no group or transactional id that determines its coordinator: "
            f"pass `key` or `node`"
        )
    return keys


def _values(part: Struct, role: Role) -> Iterator[Any]:
    for spec in part.fields():
        value = getattr(part, spec.name)
        if spec.role is role:
            # An empty id is the default of a field that this request doesn't use (OffsetFetch has both `group_id` and
            # `groups`). Null is a real value.
            yield from value if spec.array else [value] if value != "" else []
        elif spec.struct is not None and spec.array:
            for item in value or ():
                yield from _values(item, role)


def by_configured(request: Request[R], any_broker: int) -> dict[int | str | None, Request[R]]:
    """Divide a request about configurations: a broker's resources go to that broker, all others to ``any_broker``.

    If there are parts for certain brokers, the part for the other resources is under None, not under a node id, so a
    retry can choose another broker for it.
    """
    parts: dict[int | str | None, Request[R]] = {}
    for resource in getattr(request, "resources"):  # noqa: B009 - what every request of this route has
        # An empty name means the cluster-wide default, which any broker serves.
        own = resource.resource_type in _OF_BROKERS and resource.resource_name.isdecimal()
        node = int(resource.resource_name) if own else None
        if node not in parts:
            part = parts[node] = copy(request)
            part.resources = []  # type: ignore[attr-defined]
        parts[node].resources.append(resource)  # type: ignore[attr-defined]
    # If no resource needs a certain broker, which is the normal case, the request is sent undivided.
    return {any_broker: request} if parts.keys() <= {None} else parts


def last_version_by_name(request: Request[Any]) -> int | None:
    """Return the last version with topic names in both request and response, or None if all versions have them.

    Later versions of some APIs replace the name by the topic id (KIP-516). The name is ignorable there: encoding such a
    version would silently drop it, and the response to a request for all topics would list topics without names. If a
    request contains an id, its caller can handle ids.
    """
    limits = list(_name_limits(request))
    if all(topic_id == ZERO_UUID for topic_id in _values(request, Role.TOPIC_ID)):
        limits += _limits_for_all(request)
    # If the newest version still carries a name, the name is no limit.
    return min((limit for limit in limits if limit < request.versions.highest), default=None)


def _name_limits(part: Struct) -> Iterator[int]:
    named = {spec.role: spec for spec in part.fields() if spec.role is not None and not spec.array}
    name, topic_id = named.get(Role.TOPIC_NAME), named.get(Role.TOPIC_ID)
    # If the topic has an id as well, every version can carry it.
    if name and topic_id and getattr(part, name.name) and getattr(part, topic_id.name) == ZERO_UUID:
        yield name.versions.highest
    for spec in part.fields():
        if spec.struct is not None and spec.array:
            for item in getattr(part, spec.name) or ():
                yield from _name_limits(item)
        elif spec.array and spec.role is Role.TOPIC_NAME and getattr(part, spec.name):
            last = spec.versions.highest
            # That's no limit if the request also lists the topics in the field that later versions use.
            if not any(other.versions.lowest > last and getattr(part, other.name) for other in part.fields()):
                yield last


def _limits_for_all(part: Struct) -> Iterator[int]:
    """Yield the limits set by null lists of topics: null requests all, and the response lists them in the same form."""
    for spec in part.fields():
        if spec.struct is None or not spec.array:
            continue
        items = getattr(part, spec.name)
        if items is None:
            for inner in spec.struct.fields():
                if inner.role is Role.TOPIC_NAME and not inner.array:
                    yield inner.versions.highest
        for item in items or ():
            yield from _limits_for_all(item)


def response_error(response: Response) -> ErrorCode:
    """Return the error code for a whole response: the top-level one, or a "wrong broker" code that all items have."""
    top = getattr(response, "error_code", 0)
    if top:
        return ErrorCode(top)
    codes = set(_item_codes(response))
    # The code counts only if all items have it. A response with some good items must be kept, and only its misrouted
    # part is sent again (take_misrouted).
    if len(codes) == 1 and (code := ErrorCode(codes.pop())) in _MISROUTED:
        return code
    return ErrorCode.NONE


def _item_codes(part: Struct) -> Iterator[int]:
    """Yield the error codes of a response's items; items without an error yield the codes of their nested items."""
    for spec in part.fields():
        if spec.struct is None or not spec.array:
            continue
        for item in getattr(part, spec.name) or ():
            code = getattr(item, "error_code", 0)
            # Lists are nested: if a topic has no error code, use those of its partitions.
            inner = () if code else list(_item_codes(item))
            yield from inner or [code]


def take_misrouted(request: Request[R], response: R, name_of: NameOf) -> Request[R] | None:
    """Return the part of a request that reached the wrong broker, and remove its items from the response.

    Return None if there is no such part, the request cannot be divided, or the whole response is misrouted (the call
    then retries it).
    """
    route = request.route
    if route not in COORDINATED and route is not Route.LEADERS:
        return None
    misrouted = {_entity_key(about, route) for about in _misrouted_items(response, name_of, ANY_ENTITY)}
    if not misrouted:
        return None
    part = divide(request, lambda about: _entity_key(about, route) in misrouted, name_of).get(True)
    kept = divide(response, lambda about: _entity_key(about, route) in misrouted, name_of).get(False)
    # If nothing is kept, the whole response was misrouted, and the retry handles that. If there's nothing to send, the
    # broker's response is about items that weren't requested.
    if part is None or kept is None:
        return None
    # Change the response in place, to keep everything outside of the lists (throttle time, cluster id).
    for spec in listings(response):
        setattr(response, spec.name, getattr(kept, spec.name))
    return part


def _entity_key(about: Entity, route: Route) -> Entity | str | None:
    return coordinated(about, route) if route in COORDINATED else Entity(about.topic, about.partition)


def _misrouted_items(part: Struct, name_of: NameOf, within: Entity) -> Iterator[Entity]:
    for spec in listings(part):
        for item in getattr(part, spec.name) if spec.struct is not None else ():
            about = entity_of(item, within, name_of)
            if getattr(item, "error_code", 0) in _MISROUTED:
                yield about
            else:
                yield from _misrouted_items(item, name_of, about)


def join(responses: list[R], name_of: NameOf) -> R:
    """Join the responses to the parts of one request: all items, the longest throttle time, the first error."""
    joined, *others = responses
    merge(joined, others, name_of)
    for other in others:
        of_entities = {spec.name for spec in listings(other)}
        for spec in other.fields():
            mine, theirs = getattr(joined, spec.name), getattr(other, spec.name)
            if spec.name == "throttle_time_ms":
                mine = max(mine, theirs)
            # An error code replaces NONE, and the first error code is kept.
            elif mine == spec.default_value() or mine is None:
                mine = theirs
            # Other lists, such as node endpoints (KIP-951), aren't about the request's items: each broker returns some,
            # possibly the same ones.
            elif spec.array and theirs and spec.name not in of_entities:
                mine = mine + [item for item in theirs if item not in mine]
            setattr(joined, spec.name, mine)
    return joined


def error_response(part: Request[R], error: KafkaError) -> R | None:
    """Return a response for a part whose broker didn't send one, with the error as an error code for every item.

    Returns:
        The response; None if its schema has no place for an error.
    """
    # The response's schema depends on the version, and a field of the request may rule out the newest versions.
    for version in range(part.versions.highest, part.versions.lowest - 1, -1):
        try:
            part.encode(version)
        except EncodeError:
            continue
        return cast("R | None", refuse(part, version, _code(error), str(error)))
    return None


def _code(error: KafkaError) -> ErrorCode:
    if isinstance(error, BrokerError):
        return error.code
    found = (code for kind, code in _CODES if isinstance(error, kind))
    return next(found, ErrorCode.UNKNOWN_SERVER_ERROR)


_CODES = (
    (DeadlineError, ErrorCode.REQUEST_TIMED_OUT),
    (AuthenticationError, ErrorCode.SASL_AUTHENTICATION_FAILED),
    (BrokerConnectionError, ErrorCode.NETWORK_EXCEPTION),
    (UnsupportedVersionError, ErrorCode.UNSUPPORTED_VERSION),
)
"""The error code that Kafka uses for each kind of client-side failure, by exception class. The first match counts."""
