"""Splits a request into the part that its client is authorized for, and refusals for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from aiokproto.broker.security.acls import CLUSTER_NAME, REFUSALS, Operation, ResourceType
from aiokproto.codec.entities import Entity, NameOf, dividing, entities, listings
from aiokproto.codec.refusal import refusing
from aiokproto.codec.schema import Request, Response, Role, Versions
from aiokproto.codec.steps import Steps
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class Required(NamedTuple):
    """An operation that a client needs on the resources that its request is about.

    Without it, the parts of the request that name such a resource are refused, wherever in the request they are; for
    the cluster and a transactional id that is all of it.

    Attributes:
        operation: The operation.
        resource_type: The type of the resources.
        versions: The versions of the request that need it.
        unless: An operation on the cluster that is enough instead.
        together: Whether one resource without it refuses the parts that name others, too.
        otherwise: What the handler does without it, if Kafka's response is not that of refused parts: the handler
            checks it. Empty if it is checked before the handler is called.
    """

    operation: Operation
    resource_type: ResourceType
    versions: Versions = Versions.parse("0+")
    unless: Operation | None = None
    together: bool = False
    otherwise: str = ""

    def __str__(self) -> str:
        """Return it for a table: "CREATE on TOPIC, or on CLUSTER"."""
        text = f"{self.operation.name} on {self.resource_type.name}"
        if self.unless is not None:
            text += f", or {'' if self.unless is self.operation else f'{self.unless.name} '}on CLUSTER"
        if self.versions != Versions.parse("0+"):
            text += f" (v{self.versions})"
        return text


BROKERS_ONLY = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),)
"""For requests between nodes of the cluster, and for handlers without a declaration: forgetting it is safe."""


IsAuthorized = Callable[[Operation, ResourceType, str], bool]


class Authorization(NamedTuple):
    """The outcome of authorizing a request.

    Attributes:
        permitted: The part to serve; None for nothing.
        refused: The responses for the other parts, to be merged into the one response.
    """

    permitted: Request[Any] | None
    refused: list[Response]


def authorizing_request(
    request: Request[Any],
    version: int,
    requires: Iterable[Required],
    is_authorized: IsAuthorized,
    name_of: NameOf,
) -> Steps[Authorization]:
    """Authorize a request by what its API requires, except for what its handler checks, in steps.

    Raises:
        BrokerError: All of it is refused, with the code of the resource type that the client is not authorized for.
    """
    required = [
        each
        for each in requires
        if not each.otherwise
        and version in each.versions
        and not (each.unless and is_authorized(each.unless, ResourceType.CLUSTER, CLUSTER_NAME))
    ]
    # These first: they concern the whole request. What names groups and topics may be served in part.
    for each in required:
        for name in _names_of_all(request, version, each.resource_type):
            if not is_authorized(each.operation, each.resource_type, name):
                raise BrokerError(REFUSALS[each.resource_type])
    error_of = _ErrorOf(required, is_authorized, groups_are_named=_groups_are_named(request, version))
    # Dividing copies: a request that is permitted as it is, which most are, is served as it is.
    for about in entities(request, name_of):
        if error_of(about):
            break
        yield
    else:
        return Authorization(request, [])
    # Once, by the error, and not once for each name: a request may have 100,000.
    parts = yield from dividing(request, error_of, name_of)
    permitted = parts.pop(ErrorCode.NONE, None)
    # A refused topic is the error of its topic, not of the group or request around it, which may be served.
    refused = []
    for error, part in parts.items():
        refused.append((yield from _refusing(part, version, error, of_parts=error is REFUSALS[ResourceType.TOPIC])))
    if permitted is not None and any(each.together for each in required):
        refused.append((yield from _refusing(permitted, version, ErrorCode.OPERATION_NOT_ATTEMPTED, of_parts=True)))
        permitted = None
    return Authorization(permitted, refused)


def _refusing(part: Request[Any], version: int, error: ErrorCode, *, of_parts: bool) -> Steps[Response]:
    response = yield from refusing(part, version, error, of_parts=of_parts)
    # The response has no field for the error of a part.
    if response is None:
        raise BrokerError(error)
    return response


def _names_of_all(request: Request[Any], version: int, resource_type: ResourceType) -> Iterator[str]:
    """Yield the names of resources that the request as a whole is about."""
    if resource_type is ResourceType.CLUSTER:
        yield CLUSTER_NAME
    if resource_type is ResourceType.TRANSACTIONAL_ID:
        for value in _top_level(request, version, Role.TRANSACTIONAL_ID):
            # Null is no transactional id; an empty one is.
            if value is not None:
                yield value


def _top_level(request: Request[Any], version: int, role: Role) -> Iterator[Any]:
    for spec in request.fields():
        if spec.role is role and not spec.array and version in spec.versions:
            yield getattr(request, spec.name)


def _groups_are_named(request: Request[Any], version: int) -> bool:
    """Whether a part of the request that names no group is about the group with the empty name, which can have offsets.

    It is, unless the request lists groups, and lists none.
    """
    return any(True for _ in _top_level(request, version, Role.GROUP_ID)) or any(True for _ in listings(request))


class _ErrorOf:
    """The error of each entity of a request: NONE for those that the client is authorized for.

    Each name is looked up once: a request may have thousands of partitions of one topic.
    """

    def __init__(self, required: Iterable[Required], is_authorized: IsAuthorized, *, groups_are_named: bool) -> None:
        self._is_authorized = is_authorized
        self._of_parts = [each for each in required if each.resource_type in (ResourceType.GROUP, ResourceType.TOPIC)]
        self._unnamed_group = "" if groups_are_named else None
        self._known: dict[tuple[ResourceType, str], bool] = {}

    def __call__(self, about: Entity) -> ErrorCode:
        for required in self._of_parts:
            if required.resource_type is ResourceType.TOPIC:
                name = about.topic
            else:
                name = about.group if about.group is not None else self._unnamed_group
            if name is not None and not self._permits(required, name):
                return REFUSALS[required.resource_type]
        return ErrorCode.NONE

    def _permits(self, required: Required, name: str) -> bool:
        resource = (required.resource_type, name)
        if resource not in self._known:
            self._known[resource] = self._is_authorized(required.operation, required.resource_type, name)
        return self._known[resource]
