"""Splits a request into the part that its client is authorized for, and refusals for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aiokproto.broker.security.acls import CLUSTER_NAME, REFUSALS, Operation, ResourceType
from aiokproto.broker.security.required_operations import INTER_BROKER, REQUIRED_OPERATIONS, RequiredOperations
from aiokproto.codec.entities import Entity, NameOf, entities, split
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
    forbidden = [
        (wanted, error) for wanted, error, allowed in _resources(request, rule, is_authorized, name_of) if not allowed
    ]
    permitted: Request[Any] | None = request
    refused: list[Response] = []
    for wanted, error in forbidden:
        if permitted is not None:
            permitted, hit = split(permitted, wanted, name_of)
            refused += _refusal(hit, version, error)
    # AddPartitionsToTxn is all or nothing: a producer cannot use a transaction with half of its partitions.
    if refused and rule.together and permitted is not None:
        refused += _refusal(permitted, version, ErrorCode.OPERATION_NOT_ATTEMPTED)
        permitted = None
    return Authorization(permitted, refused)


def _refusal(hit: Request[Any] | None, version: int, error: ErrorCode) -> list[Response]:
    if hit is None:
        return []
    response = refuse(hit, version, error)
    # The response has no field for the error of a part.
    if response is None:
        raise BrokerError(error)
    return [response]


def _require(is_authorized: IsAuthorized, operation: Operation, resource_type: ResourceType, name: str) -> None:
    if not is_authorized(operation, resource_type, name):
        raise BrokerError(REFUSALS[resource_type])


def _transactional_ids(request: Request[Any], version: int) -> Iterator[str]:
    for spec in request.fields():
        if spec.role is Role.TRANSACTIONAL_ID and not spec.array and version in spec.versions:
            value = getattr(request, spec.name)
            if value is not None:
                yield value


def _resources(
    request: Request[Any], rule: RequiredOperations, is_authorized: IsAuthorized, name_of: NameOf
) -> Iterator[tuple[Entity, ErrorCode, bool]]:
    """Yield the groups and topics that a request names, with the error code of a refusal and whether it is
    authorized."""
    named = list(entities(request, name_of))
    if rule.group is not None:
        # Each name once, in the order of the request: a request may have thousands of partitions of one
        # topic.
        for group in dict.fromkeys(each.group for each in named if each.group is not None):
            allowed = is_authorized(rule.group, ResourceType.GROUP, group)
            yield Entity(group=group), REFUSALS[ResourceType.GROUP], allowed
    if rule.topic is None:
        return
    if rule.all_topics is not None and is_authorized(rule.all_topics, ResourceType.CLUSTER, CLUSTER_NAME):
        return
    for topic in dict.fromkeys(each.topic for each in named if each.topic is not None):
        yield Entity(topic=topic), REFUSALS[ResourceType.TOPIC], is_authorized(rule.topic, ResourceType.TOPIC, topic)
