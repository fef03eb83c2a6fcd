"""Code shared by AlterConfigs and IncrementalAlterConfigs, which differ only in how they compute the new options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from aiokproto.broker.config.options import ConfigOverrides, GroupOptions, TopicOptions
from aiokproto.broker.handlers.describe_configs import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    METRICS_RESOURCE,
    TOPIC_RESOURCE,
    check_broker_name,
    require_for_configs,
)
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation
from aiokproto.broker.telemetry import ClientMetricsOptions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

R = TypeVar("R")
Change = Callable[[ConfigOverrides], Mapping[str, str | None]]
"""Computes a resource's new options from its current ones."""


class _Resource(Protocol):
    resource_type: int
    resource_name: str


def change_resource(
    response: Callable[..., R], resource: _Resource, change: Change, context: RequestContext, *, dry_run: bool
) -> R:
    """Change the options of a topic, a group, this broker or all brokers, and return the resource's response.

    Args:
        response: The class of the resource's response.
        resource: The resource in the request.
        change: Computes the new options.
        context: The context of the request.
        dry_run: Only validate.
    """
    code, text = ErrorCode.NONE, None
    try:
        require_for_configs(context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
        _change(resource, change, context, dry_run=dry_run)
    except BrokerError as error:
        code, text = error.code, error.detail
    return response(
        error_code=code, error_message=text, resource_type=resource.resource_type, resource_name=resource.resource_name
    )


def _change(resource: _Resource, change: Change, context: RequestContext, *, dry_run: bool) -> None:
    if resource.resource_type == TOPIC_RESOURCE:
        topic = context.state.topics.get(resource.resource_name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic_options = TopicOptions(change(topic.options), context.state.options)
        if not dry_run:
            context.state.configure_topic(topic, topic_options.overrides)
    elif resource.resource_type == GROUP_RESOURCE:
        if not resource.resource_name:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the group's name is empty")
        group_options = GroupOptions(change(context.state.group_options(resource.resource_name)), context.state.options)
        if not dry_run:
            context.groups.configure(resource.resource_name, group_options)
    elif resource.resource_type == METRICS_RESOURCE:
        if not resource.resource_name:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the subscription's name is empty")
        metrics = context.telemetry.subscriptions.get(resource.resource_name)
        before_metrics = metrics or ClientMetricsOptions({}, context.state.options)
        metrics_options = ClientMetricsOptions(change(before_metrics), context.state.options)
        if not dry_run:
            context.telemetry.configure(resource.resource_name, metrics_options)
    elif resource.resource_type == BROKER_RESOURCE:
        check_broker_name(context, resource.resource_name)
        before = context.state.dynamic_options(resource.resource_name)
        broker_options = type(before)(change(before), context.state.options)
        if not dry_run:
            context.state.set_dynamic_options(resource.resource_name, broker_options)
    else:
        kind = resource.resource_type
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, detail=f"the embedded broker has no options for resource type {kind}"
        )
