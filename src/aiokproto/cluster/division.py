"""Reading requests and answers for what routing needs to know of them, and joining answers (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, TypeVar, cast

from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.codec.entities import ANYTHING, NameOf, Subject, divide, lists, merge, subject
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
"""About the broker as a whole, also where each item of an answer has the code for itself."""

_MISROUTED = WRONG_BROKER | {ErrorCode.NOT_LEADER_OR_FOLLOWER}

_OF_BROKERS = frozenset({4, 8})
"""Types of resources that a broker keeps for itself: its configuration, and the levels of its loggers."""

_ID_ROLES = {Route.GROUP: Role.GROUP_ID, Route.TRANSACTION: Role.TRANSACTIONAL_ID}


def coordinated(about: Subject, route: Route) -> str | None:
    """The group or transactional id, whichever the route goes by."""
    return about.group if route is Route.GROUP else about.transaction


def coordinator_keys(request: Request[Any]) -> list[str | None]:
    """The groups or transactional ids that a request is about, in their order.

    None stands for no transactional id (InitProducerId for a producer without transactions), where any broker will do.

    Raises:
        ConfigurationError: It has none; the key of a share partition is no single field.
    """
    role = _ID_ROLES.get(request.route)
    keys = list(dict.fromkeys(_values(request, role))) if role is not None else []
    if not keys:
        raise ConfigurationError(
            f"{type(request).__name__} has no id: it goes to the coordinator of one (say which by `key` or `node`)"
        )
    return keys


def _values(part: Struct, role: Role) -> Iterator[str | None]:
    for spec in part.fields():
        value = getattr(part, spec.name)
        if spec.role is role:
            yield from value if spec.array else [value] if value != "" else []
        elif spec.struct is not None and spec.array:
            for item in value or ():
                yield from _values(item, role)


def by_configured(request: Request[R], anyone: int) -> dict[int | str | None, Request[R]]:
    """A request about configurations, by broker: a broker's own go to it, those of other resources to ``anyone``.

    Beside parts for certain brokers, the others are a part of None: that any broker can answer it must not get lost.
    """
    parts: dict[int | str | None, Request[R]] = {}
    for resource in getattr(request, "resources"):  # noqa: B009 - what every request of this route has
        own = resource.resource_type in _OF_BROKERS and resource.resource_name.isdecimal()
        node = int(resource.resource_name) if own else None
        if node not in parts:
            part = parts[node] = copy(request)
            part.resources = []  # type: ignore[attr-defined]
        parts[node].resources.append(resource)  # type: ignore[attr-defined]
    return {anyone: request} if parts.keys() <= {None} else parts


def last_version_by_name(request: Request[Any]) -> int | None:
    """The last version that can carry a request whose topics are given by name alone; None if all can.

    Kafka has replaced names by ids in the later versions of some APIs, and leaves a name out there without an error.
    """
    limits = [limit for limit in _name_limits(request) if limit < request.versions.highest]
    return min(limits, default=None)


def _name_limits(part: Struct) -> Iterator[int]:
    named = {spec.role: spec for spec in part.fields() if spec.role is not None and not spec.array}
    name, topic_id = named.get(Role.TOPIC_NAME), named.get(Role.TOPIC_ID)
    if name and topic_id and getattr(part, name.name) and getattr(part, topic_id.name) == ZERO_UUID:
        yield name.versions.highest
    for spec in part.fields():
        if spec.struct is not None and spec.array:
            for item in getattr(part, spec.name) or ():
                yield from _name_limits(item)
        elif spec.array and spec.role is Role.TOPIC_NAME and getattr(part, spec.name):
            last = spec.versions.highest
            # The same names may be given once more, in the form that later versions have for them.
            if not any(other.versions.lowest > last and getattr(part, other.name) for other in part.fields()):
                yield last


def response_error(response: Response) -> ErrorCode:
    """The code that holds for a whole answer: the top one, or what all items have, if the broker is the wrong one."""
    top = getattr(response, "error_code", 0)
    if top:
        return ErrorCode(top)
    codes = set(_item_codes(response))
    if len(codes) == 1 and (code := ErrorCode(codes.pop())) in _MISROUTED:
        return code
    return ErrorCode.NONE


def _item_codes(part: Struct) -> Iterator[int]:
    """The codes of what a response lists; of an item without a failure of its own, those of what it lists."""
    for spec in part.fields():
        if spec.struct is None or not spec.array:
            continue
        for item in getattr(part, spec.name) or ():
            code = getattr(item, "error_code", 0)
            inner = () if code else list(_item_codes(item))
            yield from inner or [code]


def take_misrouted(request: Request[R], response: R, name_of: NameOf) -> Request[R] | None:
    """The part of a divisible request that a broker no longer leads or coordinates, where its answer has other parts.

    Its items are taken out of the response.
    """
    route = request.route
    if route not in COORDINATED and route is not Route.LEADERS:
        return None
    misrouted = {_subject_key(about, route) for about in _misrouted_items(response, name_of, ANYTHING)}
    if not misrouted:
        return None
    part = divide(request, lambda about: _subject_key(about, route) in misrouted, name_of).get(True)
    kept = divide(response, lambda about: _subject_key(about, route) in misrouted, name_of).get(False)
    if part is None or kept is None:
        return None
    for spec in lists(response):
        setattr(response, spec.name, getattr(kept, spec.name))
    return part


def _subject_key(about: Subject, route: Route) -> Subject | str | None:
    return coordinated(about, route) if route in COORDINATED else Subject(about.topic, about.partition)


def _misrouted_items(part: Struct, name_of: NameOf, within: Subject) -> Iterator[Subject]:
    for spec in lists(part):
        for item in getattr(part, spec.name) if spec.struct is not None else ():
            about = subject(item, within, name_of)
            if getattr(item, "error_code", 0) in _MISROUTED:
                yield about
            else:
                yield from _misrouted_items(item, name_of, about)


def join(responses: list[R], name_of: NameOf) -> R:
    """One response of several to parts of one request: what they list, the longest throttle time, the first error."""
    joined, *others = responses
    for other in others:
        merge(joined, other, name_of)
        of_subjects = {spec.name for spec in lists(other)}
        for spec in other.fields():
            mine, theirs = getattr(joined, spec.name), getattr(other, spec.name)
            if spec.name == "throttle_time_ms":
                mine = max(mine, theirs)
            elif mine == spec.default_value() or mine is None:
                mine = theirs
            elif spec.array and theirs and spec.name not in of_subjects:
                mine = mine + [item for item in theirs if item not in mine]
            setattr(joined, spec.name, mine)
    return joined


def error_response(part: Request[R], error: KafkaError) -> R | None:
    """The response to a part of a request whose broker gave none: the error as a code, in each place for one.

    Returns:
        The response; None if it has no place for an error.
    """
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
"""What each kind of failure is called in an answer, the first that fits."""
