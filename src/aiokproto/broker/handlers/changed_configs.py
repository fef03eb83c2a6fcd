"""What AlterConfigs and IncrementalAlterConfigs do with each resource: they differ in what the options become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from aiokproto.broker.config.options import GroupOptions, OwnOptions, TopicOptions
from aiokproto.broker.handlers.describe_configs import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    check_broker_name,
    require_for_configs,
)
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

R = TypeVar("R")
Change = Callable[[OwnOptions], Mapping[str, str | None]]
"""From the options there are, those that shall be."""


class _Resource(Protocol):
    resource_type: int
    resource_name: str


def answer(
    response: Callable[..., R], asked: _Resource, change: Change, context: RequestContext, *, dry_run: bool
) -> R:
    """Change the options of a topic, a group, this broker or all brokers, and say how that went.

    Args:
        response: Makes the answer about one resource.
        asked: Which one.
        change: What its options become.
        context: The request's surroundings.
        dry_run: Only check.
    """
    code, text = ErrorCode.NONE, None
    try:
        require_for_configs(context, Operation.ALTER_CONFIGS, asked.resource_type, asked.resource_name)
        _change(asked, change, context, dry_run=dry_run)
    except BrokerError as error:
        code, text = error.code, error.detail
    return response(
        error_code=code, error_message=text, resource_type=asked.resource_type, resource_name=asked.resource_name
    )


def _change(asked: _Resource, change: Change, context: RequestContext, *, dry_run: bool) -> None:
    if asked.resource_type == TOPIC_RESOURCE:
        topic = context.state.topics.get(asked.resource_name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        of_topic = TopicOptions(change(topic.options), context.state.options)
        if not dry_run:
            context.state.configure_topic(topic, of_topic.own)
    elif asked.resource_type == GROUP_RESOURCE:
        if not asked.resource_name:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the name of a group is empty")
        of_group = GroupOptions(change(context.groups.options(asked.resource_name)), context.state.options)
        if not dry_run:
            context.groups.configure(asked.resource_name, of_group)
    elif asked.resource_type == BROKER_RESOURCE:
        check_broker_name(context, asked.resource_name)
        before = context.state.changed_options(asked.resource_name)
        of_brokers = type(before)(change(before), context.state.options)
        if not dry_run:
            context.state.change_options(asked.resource_name, of_brokers)
    else:
        kind = asked.resource_type
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"resources of type {kind} have no options here")
