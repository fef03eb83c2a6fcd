"""Keeping to the rules: what of a request is served, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aiokproto.broker.security.acls import CLUSTER_NAME, REFUSALS, Operation, ResourceType
from aiokproto.broker.security.required_operations import INTER_BROKER, REQUIRED_OPERATIONS, RequiredOperations
from aiokproto.codec.entities import NameOf, Subject, split, subjects
from aiokproto.codec.refusal import refuse
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response, Role
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

IsAuthorized = Callable[[Operation, ResourceType, str], bool]


class Authorization(NamedTuple):
    """What becomes of a request.

    Attributes:
        served: What of it is served; None: nothing.
        refused: The answers to the rest, which belong into the one response.
    """

    served: Request[Any] | None
    refused: list[Response]


def authorize_request(
    request: Request[Any], version: int, is_authorized: IsAuthorized, name_of: NameOf
) -> Authorization:
    """Hold a request to the rules of its API.

    Raises:
        BrokerError: All of it is refused; the code says for the lack of what.
    """
    rule = REQUIRED_OPERATIONS.get(api_name(request.api_key), INTER_BROKER)
    if rule.cluster is not None:
        _require(is_authorized, rule.cluster, ResourceType.CLUSTER, CLUSTER_NAME)
    if rule.transaction is not None:
        for transactional_id in _transactional_ids(request, version):
            _require(is_authorized, rule.transaction, ResourceType.TRANSACTIONAL_ID, transactional_id)
    forbidden = [
        (wanted, error) for wanted, error, allowed in _resources(request, rule, is_authorized, name_of) if not allowed
    ]
    served: Request[Any] | None = request
    refused: list[Response] = []
    for wanted, error in forbidden:
        if served is not None:
            served, hit = split(served, wanted, name_of)
            refused += _refusal(hit, version, error)
    if refused and rule.together and served is not None:
        refused += _refusal(served, version, ErrorCode.OPERATION_NOT_ATTEMPTED)
        served = None
    return Authorization(served, refused)


def _refusal(hit: Request[Any] | None, version: int, error: ErrorCode) -> list[Response]:
    if hit is None:
        return []
    response = refuse(hit, version, error)
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
) -> Iterator[tuple[Subject, ErrorCode, bool]]:
    """The groups and topics that a request names, what refusing them is called, and whether that is due."""
    named = list(subjects(request, name_of))
    if rule.group is not None:
        for group in dict.fromkeys(each.group for each in named if each.group is not None):
            allowed = is_authorized(rule.group, ResourceType.GROUP, group)
            yield Subject(group=group), REFUSALS[ResourceType.GROUP], allowed
    if rule.topic is None:
        return
    if rule.all_topics is not None and is_authorized(rule.all_topics, ResourceType.CLUSTER, CLUSTER_NAME):
        return
    for topic in dict.fromkeys(each.topic for each in named if each.topic is not None):
        yield Subject(topic=topic), REFUSALS[ResourceType.TOPIC], is_authorized(rule.topic, ResourceType.TOPIC, topic)
