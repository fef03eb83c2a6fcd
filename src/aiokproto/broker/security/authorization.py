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
    """An operation that a client needs permission for, on the resources that its request is about.

    Without the permission, all parts of the request that concern the resource are refused. For the cluster and
    transactional ids, that's the whole request.

    Attributes:
        operation: The operation.
        resource_type: The type of the resources.
        versions: The versions of the request that need the permission.
        unless: An operation on the cluster. Permission for it is enough, too.
        together: Whether a missing permission for one resource also refuses the parts that concern other resources.
        otherwise: What the handler does without the permission, if the handler checks it. Handlers do that where
            Kafka's response isn't the usual one for refused parts. Empty if the permission is checked before the
            handler is called.
    """

    operation: Operation
    resource_type: ResourceType
    versions: Versions = Versions.parse("0+")
    unless: Operation | None = None
    together: bool = False
    otherwise: str = ""

    def __str__(self) -> str:
        """Return the requirement as shown in a table: "CREATE on TOPIC, or on CLUSTER"."""
        text = f"{self.operation.name} on {self.resource_type.name}"
        if self.unless is not None:
            text += f", or {'' if self.unless is self.operation else f'{self.unless.name} '}on CLUSTER"
        if self.versions != Versions.parse("0+"):
            text += f" (v{self.versions})"
        return text


BROKERS_ONLY = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),)
"""For requests between nodes of the cluster. It's also the default for handlers, so forgetting to declare permissions
is safe."""


IsAuthorized = Callable[[Operation, ResourceType, str], bool]


class Authorization(NamedTuple):
    """The outcome of authorizing a request.

    Attributes:
        permitted: The part to serve, or None if nothing is permitted.
        refused: The responses for the other parts, to be merged into the response.
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
    """Check a request against the requirements of its API, in steps, except those that the handler checks itself.

    Raises:
        BrokerError: The whole request is refused, with the error code for the type of resource that the client isn't
            authorized for.
    """
    required = [
        need
        for need in requires
        if not need.otherwise
        and version in need.versions
        and not (need.unless and is_authorized(need.unless, ResourceType.CLUSTER, CLUSTER_NAME))
    ]
    # Check operations on the cluster and on transactional ids first, because they concern the whole request. Requests
    # about groups and topics may be served in part.
    for need in required:
        for name in _names_of_all(request, version, need.resource_type):
            if not is_authorized(need.operation, need.resource_type, name):
                raise BrokerError(REFUSALS[need.resource_type])
    error_of = _ErrorOf(required, is_authorized, groups_are_named=_groups_are_named(request, version))
    # Dividing copies the request. Most requests are permitted as a whole, so serve them as they are.
    for about in entities(request, name_of):
        if error_of(about):
            break
        yield
    else:
        return Authorization(request, [])
    # Divide the request once, by error code, rather than once per name: a request may contain 100,000 names.
    parts = yield from dividing(request, error_of, name_of)
    permitted = parts.pop(ErrorCode.NONE, None)
    # A refused topic is an error of that topic, not of the group or request that contains it, which may be served.
    refused = []
    for error, part in parts.items():
        refused.append((yield from _refusing(part, version, error, of_parts=error is REFUSALS[ResourceType.TOPIC])))
    if permitted is not None and any(need.together for need in required):
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
    """Yield the names of the resources that the whole request is about."""
    if resource_type is ResourceType.CLUSTER:
        yield CLUSTER_NAME
    if resource_type is ResourceType.TRANSACTIONAL_ID:
        for value in _top_level(request, version, Role.TRANSACTIONAL_ID):
            # Null isn't a transactional id, but an empty one is.
            if value is not None:
                yield value


def _top_level(request: Request[Any], version: int, role: Role) -> Iterator[Any]:
    for spec in request.fields():
        if spec.role is role and not spec.array and version in spec.versions:
            yield getattr(request, spec.name)


def _groups_are_named(request: Request[Any], version: int) -> bool:
    """Return whether parts of a request that don't name a group are about the group with the empty name, which can have
    offsets.

    They are, unless the request contains a list of groups that is empty.
    """
    return any(True for _ in _top_level(request, version, Role.GROUP_ID)) or any(True for _ in listings(request))


class _ErrorOf:
    """The error of each entity of a request: NONE for an entity that the client is authorized for.

    Each name is looked up only once: a request may contain thousands of partitions of one topic.
    """

    def __init__(self, required: Iterable[Required], is_authorized: IsAuthorized, *, groups_are_named: bool) -> None:
        self._is_authorized = is_authorized
        self._of_parts = [need for need in required if need.resource_type in (ResourceType.GROUP, ResourceType.TOPIC)]
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
