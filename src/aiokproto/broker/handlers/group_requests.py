"""Code shared by the handlers of group requests: validation, heartbeat responses, and descriptions of groups.

Each group type has its own message classes with the same fields. The functions here take these classes, or structs with
these fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from aiokproto.broker.groups.assignment import HeartbeatResult, by_topic
from aiokproto.broker.handlers.once import Once
from aiokproto.broker.metadata import features
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import ResourceType
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

R = TypeVar("R")


class _DescribedGroup(Protocol):
    group_id: Any
    error_code: int
    authorized_operations: int


G = TypeVar("G", bound=_DescribedGroup)


def invalid(detail: str) -> BrokerError:
    """Return the error of a malformed request."""
    return BrokerError(ErrorCode.INVALID_REQUEST, detail=detail)


def check_consumer_protocol(context: RequestContext) -> None:
    """Raise :class:`BrokerError` UNSUPPORTED_VERSION if the cluster's ``group.version`` disables KIP-848. Kafka does so
    too, even though it serves the API."""
    if features.levels(context.state.metadata)["group.version"] < 1:
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)


def check_not_blank(request: object, *fields: str) -> None:
    """Raise :class:`BrokerError` INVALID_REQUEST if any of the fields is empty or whitespace. Null is accepted."""
    for field in fields:
        text = getattr(request, field)
        if text is not None and not text.strip():
            raise invalid(f"{field} is empty")


def heartbeat_response(
    result: HeartbeatResult,
    interval: float,
    response: Callable[..., R],
    assignment: Callable[..., Any],
    topic_partitions: Callable[..., Any],
) -> R:
    """Return the response to a ConsumerGroupHeartbeat or ShareGroupHeartbeat.

    Args:
        result: The result of the heartbeat.
        interval: Seconds until the next heartbeat; 0 for a member that has left.
        response: The response class.
        assignment: The class of the ``assignment`` field.
        topic_partitions: The class of the items of ``assignment.topic_partitions``.
    """
    assigned = None
    if result.assigned is not None:
        assigned = assignment(
            topic_partitions=[
                topic_partitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(result.assigned).items()
            ]
        )
    return response(
        error_code=ErrorCode.NONE,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=round(interval * 1000),
        assignment=assigned,
    )


def named_topics(subtopologies: Iterable[Any]) -> set[str]:
    """Return the topics that subtopologies refer to. The subtopologies may come from a request or from the group's
    record."""
    return {
        name
        for subtopology in subtopologies
        for name in (
            *subtopology.source_topics,
            *subtopology.repartition_sink_topics,
            *(info.name for info in subtopology.repartition_source_topics),
            *(info.name for info in subtopology.state_changelog_topics),
        )
    }


async def describe_groups(
    group_ids: Iterable[str],
    describe: Callable[[str, RequestContext], G],
    context: RequestContext,
    *,
    operations: bool,
) -> list[G]:
    """Describe groups independently: a group that fails gets an error code, and doesn't affect the other groups.

    Args:
        group_ids: The groups.
        describe: Describes a group. Errors are returned in the description.
        context: The context of the request.
        operations: Whether to add the client's authorized operations (KIP-430).
    """
    once = Once()
    groups = [describe(group_id, context) async for group_id in context.each(group_ids) if once(group_id)]
    if operations:
        async for group in context.each(groups):
            if not group.error_code:
                group.authorized_operations = context.authorized_operations(ResourceType.GROUP, group.group_id)
    return groups
