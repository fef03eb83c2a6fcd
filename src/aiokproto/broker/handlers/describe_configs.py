"""DescribeConfigs: options of topics (resource type 2), brokers (4), client metrics (16) and groups (32).

v1: synonyms. v3: types. A node describes only its own options. For options that were set for all brokers, the resource
name is empty (KIP-226). Documentation is never returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from aiokproto.broker.config.options import (
    BROKER,
    DEFAULT_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    INT,
    LIST,
    PASSWORD,
    STATIC_BROKER_CONFIG,
    STRING,
    ClusterOptions,
    ConfigOverrides,
    NodeOptions,
    as_text,
)
from aiokproto.broker.handlers.once import Once
from aiokproto.broker.metadata.topics import Topic, unknown_topic_error
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.telemetry import ClientMetricsOptions
from aiokproto.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.texts import address

TOPIC_RESOURCE, BROKER_RESOURCE, METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 16, 32
FROM_TOPIC, FROM_NODE, FROM_METRICS, FROM_GROUP = 1, 2, 7, 8

REQUIRES = (
    Required(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, otherwise="refuses these resources"),
    Required(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, otherwise="refuses these resources"),
    Required(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, otherwise="refuses these resources"),
)


async def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    once = Once()
    # Build each resource's options only once, even if it's requested several times with different options: that takes
    # much longer than sending the name.
    entries = cache(partial(_entries, context))
    return DescribeConfigsResponse(
        results=[
            _response(resource, request.include_synonyms, entries, context)
            async for resource in context.each(request.resources)
            if once(resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ()))
        ],
    )


def _response(
    requested: DescribeConfigsResource,
    synonyms: bool,
    entries: Callable[[int, str], list[DescribeConfigsResourceResult]],
    context: RequestContext,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
        configs=[],
    )
    try:
        found = entries(requested.resource_type, requested.resource_name)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
        return result
    wanted = frozenset(requested.configuration_keys or ())
    # An empty list means all options, like null. That's what Kafka does, even though the protocol's documentation
    # disagrees.
    result.configs = [entry for entry in found if not wanted or entry.name in wanted]
    for entry in result.configs:
        # v1 replaced this flag with the source (KIP-226).
        entry.is_default = context.version == 0 and entry.config_source == DEFAULT_CONFIG
        if not synonyms:
            entry.synonyms = []
    return result


def _entries(context: RequestContext, resource_type: int, name: str) -> list[DescribeConfigsResourceResult]:
    require_for_configs(context, Operation.DESCRIBE_CONFIGS, resource_type, name)
    if resource_type == TOPIC_RESOURCE:
        topic = context.state.topics.get(name)
        if topic is None:
            raise BrokerError(unknown_topic_error(name))
        return topic_entries(topic)
    if resource_type in (GROUP_RESOURCE, METRICS_RESOURCE) and not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the resource has no name")
    if resource_type == GROUP_RESOURCE:
        return own_entries(context.state.group_options(name), FROM_GROUP)
    if resource_type == METRICS_RESOURCE:
        subscription = context.telemetry.subscriptions.get(name)
        return own_entries(subscription or ClientMetricsOptions({}, context.state.options), FROM_METRICS)
    if resource_type == BROKER_RESOURCE:
        check_broker_name(context, name)
        changed = context.state.dynamic_options(name)
        # As in Kafka, the list for all brokers contains only the options that were set: each node has its own defaults.
        if isinstance(changed, ClusterOptions):
            return [
                _entry(option, changed.TABLE[option].code, [(option, DYNAMIC_DEFAULT_BROKER_CONFIG, text)])
                for option, text in changed.overrides.items()
            ]
        return _node_entries(changed, context)
    raise BrokerError(
        ErrorCode.INVALID_REQUEST,
        detail=f"the embedded broker has no options for resource type {resource_type}",
    )


def require_for_configs(context: RequestContext, operation: Operation, resource_type: int, name: str) -> None:
    """Check the permission for an operation on a resource's options. Broker options belong to the cluster.

    Raises:
        BrokerError: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED.
    """
    if resource_type == TOPIC_RESOURCE:
        context.authorize(operation, ResourceType.TOPIC, name)
    elif resource_type == GROUP_RESOURCE:
        context.authorize(operation, ResourceType.GROUP, name)
    else:
        context.authorize(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def check_broker_name(context: RequestContext, name: str) -> None:
    """Check that a broker resource refers to this broker, or to all brokers (the empty name).

    Raises:
        BrokerError: INVALID_REQUEST.
    """
    if name not in ("", str(context.node.node_id)):
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"this is broker {context.node.node_id}, not {name!r}")


Source = tuple[str, int, str]
"""An option's name, the number of the value's source, and the value."""


def topic_entries(topic: Topic) -> list[DescribeConfigsResourceResult]:
    """Return a topic's options with their sources."""
    return own_entries(topic.options, FROM_TOPIC)


def own_entries(options: ConfigOverrides, set_here: int) -> list[DescribeConfigsResourceResult]:
    """Return a topic's or group's options with their sources. ``set_here`` is the source of its own values."""
    entries = []
    for name, option in options.TABLE.items():
        own: list[Source] = [(name, set_here, options.overrides[name])] if name in options.overrides else []
        inherited = [(option.broker or name, source, as_text(value)) for source, value in options.sources(name)]
        entries.append(_entry(name, option.code, [*own, *inherited]))
    return entries


def _node_entries(changed: NodeOptions, context: RequestContext) -> list[DescribeConfigsResourceResult]:
    """Return a node's options with their sources."""
    for_all = context.state.dynamic_options("")
    entries = []
    for name in changed.TABLE:
        own = [(name, FROM_NODE, changed.overrides[name])] if name in changed.overrides else []
        cluster_wide = (
            [(name, DYNAMIC_DEFAULT_BROKER_CONFIG, for_all.overrides[name])] if name in for_all.overrides else []
        )
        if own or cluster_wide:
            entries.append(_entry(name, changed.TABLE[name].code, [*own, *cluster_wide]))
    # Clients and tools look for the addresses here, even though they're arguments of Cluster rather than options.
    node, security = context.node, context.security
    for name, host in (("advertised.listeners", node.host), ("listeners", node.listens or node.host)):
        listener = f"{security.protocol}://{address(host, node.port)}"
        entries.append(_entry(name, LIST, [(name, STATIC_BROKER_CONFIG, listener)], read_only=True))
    for name in ("broker.id", "node.id"):
        entries.append(_entry(name, INT, [(name, STATIC_BROKER_CONFIG, str(node.node_id))], read_only=True))
    # The nodes don't talk to each other, so Kafka's inter-broker options describe the only listener.
    for name, value in (
        ("listener.security.protocol.map", f"{security.protocol}:{security.protocol}"),
        ("security.inter.broker.protocol", security.protocol),
    ):
        entries.append(_entry(name, STRING, [(name, STATIC_BROKER_CONFIG, value)], read_only=True))
    for name, option in BROKER.items():
        sources = [(name, source, as_text(value)) for source, value in context.state.options.sources(name)]
        if name in security.following:
            sources.insert(0, (name, STATIC_BROKER_CONFIG, security.following[name]))
        entries.append(_entry(name, option.code, sources, read_only=name not in ClusterOptions.TABLE))
    return entries


def _entry(
    name: str, code: int, sources: Sequence[Source], *, read_only: bool = False
) -> DescribeConfigsResourceResult:
    """Return an option. The value of its first source is in effect. Passwords are left out."""
    secret = code == PASSWORD
    synonyms = [
        DescribeConfigsSynonym(name=source_name, value=None if secret else value, source=source)
        for source_name, source, value in sources
    ]
    return DescribeConfigsResourceResult(
        name=name,
        value=synonyms[0].value,
        read_only=read_only,
        config_source=synonyms[0].source,
        is_sensitive=secret,
        synonyms=synonyms,
        config_type=code,
        documentation=None,
    )
