"""Splits a request into the part that its client is authorized for, and refusals for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aiokproto.broker.security.acls import CLUSTER_NAME, REFUSALS, Operation, ResourceType
from aiokproto.broker.security.required_operations import INTER_BROKER, REQUIRED_OPERATIONS, RequiredOperations
from aiokproto.codec.entities import Entity, NameOf, divide, entities
from aiokproto.codec.refusal import refuse
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response, Role
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

IsAuthorized = Callable[[Operation, ResourceType, str], bool]


class Authorization(NamedTuple):
    """The outcome of authorizing a request.

    Attributes:
        permitted: The part to serve; None for nothing.
        refused: The responses for the other parts, to be merged into the one response.
    """

    permitted: Request[Any] | None
    refused: list[Response]


def authorize_request(
    request: Request[Any], version: int, is_authorized: IsAuthorized, name_of: NameOf
) -> Authorization:
    """Authorize a request by the required operations of its API.

    Raises:
        BrokerError: All of it is refused, with the code of the resource type that the client is not authorized for.
    """
    # An API that is missing in the table is refused to everybody but brokers: forgetting it is safe.
    rule = REQUIRED_OPERATIONS.get(api_name(request.api_key), INTER_BROKER)
    if rule.brokers_since is not None and version >= rule.brokers_since:
        rule = INTER_BROKER
    # These first: they concern the whole request. What names groups and topics may be served in part.
    if rule.cluster is not None:
        _require(is_authorized, rule.cluster, ResourceType.CLUSTER, CLUSTER_NAME)
    if rule.transaction is not None:
        for transactional_id in _transactional_ids(request, version):
            _require(is_authorized, rule.transaction, ResourceType.TRANSACTIONAL_ID, transactional_id)
    error_of = _ErrorOf(rule, is_authorized)
    # Dividing copies: a request that is permitted as it is, which most are, is served as it is.
    if not any(map(error_of, entities(request, name_of))):
        return Authorization(request, [])
    # Once, by the error, and not once for each name: a request may have 100,000.
    parts = divide(request, error_of, name_of)
    permitted = parts.pop(ErrorCode.NONE, None)
    refused = [_refusal(part, version, error) for error, part in parts.items()]
    # AddPartitionsToTxn is all or nothing: a producer cannot use a transaction with half of its partitions.
    if rule.together and permitted is not None:
        refused.append(_refusal(permitted, version, ErrorCode.OPERATION_NOT_ATTEMPTED))
        permitted = None
    return Authorization(permitted, refused)


class _ErrorOf:
    """The error of each entity of a request: NONE for those that the client is authorized for.

    Each name is looked up once: a request may have thousands of partitions of one topic.
    """

    def __init__(self, rule: RequiredOperations, is_authorized: IsAuthorized) -> None:
        self._is_authorized = is_authorized
        self._group = rule.group
        all_topics = rule.all_topics is not None and is_authorized(rule.all_topics, ResourceType.CLUSTER, CLUSTER_NAME)
        self._topic = None if all_topics else rule.topic
        self._known: dict[tuple[ResourceType, str], bool] = {}

    def __call__(self, about: Entity) -> ErrorCode:
        if not self._permits(self._group, ResourceType.GROUP, about.group):
            return REFUSALS[ResourceType.GROUP]
        if not self._permits(self._topic, ResourceType.TOPIC, about.topic):
            return REFUSALS[ResourceType.TOPIC]
        return ErrorCode.NONE

    def _permits(self, operation: Operation | None, resource_type: ResourceType, name: str | None) -> bool:
        if operation is None or name is None:
            return True
        resource = (resource_type, name)
        if resource not in self._known:
            self._known[resource] = self._is_authorized(operation, resource_type, name)
        return self._known[resource]


def _refusal(part: Request[Any], version: int, error: ErrorCode) -> Response:
    response = refuse(part, version, error)
    # The response has no field for the error of a part.
    if response is None:
        raise BrokerError(error)
    return response


def _require(is_authorized: IsAuthorized, operation: Operation, resource_type: ResourceType, name: str) -> None:
    if not is_authorized(operation, resource_type, name):
        raise BrokerError(REFUSALS[resource_type])


def _transactional_ids(request: Request[Any], version: int) -> Iterator[str]:
    for spec in request.fields():
        if spec.role is Role.TRANSACTIONAL_ID and not spec.array and version in spec.versions:
            value = getattr(request, spec.name)
            if value is not None:
                yield value
