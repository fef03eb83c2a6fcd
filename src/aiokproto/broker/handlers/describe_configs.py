"""DescribeConfigs v0-4: options of topics (resource type 2), brokers (4) and groups (32). v1 synonyms, v3 types.

Of a broker only what this one knows is listed, and nothing can be changed while it runs. No documentation is given.
"""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.options import BROKER, BrokerOptions, OwnOptions, as_text
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.topics import Topic
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

REQUEST = DescribeConfigsRequest
VERSIONS = "0-4"

TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
FROM_TOPIC, FROM_BROKER, FROM_DEFAULT, FROM_GROUP = 1, 4, 5, 8


async def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        throttle_time_ms=0,
        results=[_answer(resource, request.include_synonyms, context) for resource in request.resources],
    )


def _answer(asked: DescribeConfigsResource, synonyms: bool, context: Context) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[],
    )
    try:
        entries = _entries(asked, context)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
        return result
    wanted = asked.configuration_keys
    result.configs = [entry for entry in entries if wanted is None or entry.name in wanted]
    for entry in result.configs:
        entry.is_default = context.version == 0 and entry.config_source == FROM_DEFAULT
        if not synonyms:
            entry.synonyms = []
    return result


def _entries(asked: DescribeConfigsResource, context: Context) -> list[DescribeConfigsResourceResult]:
    require_for_configs(context, Operation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name)
    if asked.resource_type == TOPIC_RESOURCE:
        topic = context.state.topics.get(asked.resource_name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(topic)
    if asked.resource_type == GROUP_RESOURCE:
        return own_entries(context.groups.options(asked.resource_name), FROM_GROUP)
    if asked.resource_type == BROKER_RESOURCE:
        if asked.resource_name != str(context.node.node_id):
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"this is broker {context.node.node_id}")
        return _broker_entries(context.state.options)
    raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"resources of type {asked.resource_type} have no options here")


def require_for_configs(context: Context, operation: Operation, resource_type: int, name: str) -> None:
    """Refuse what the client may not do to options: those of brokers are the cluster's.

    Raises:
        BrokerError: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED.
    """
    if resource_type == TOPIC_RESOURCE:
        context.require(operation, ResourceType.TOPIC, name)
    elif resource_type == GROUP_RESOURCE:
        context.require(operation, ResourceType.GROUP, name)
    else:
        context.require(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def topic_entries(topic: Topic) -> list[DescribeConfigsResourceResult]:
    """A topic's options, with where each comes from."""
    return own_entries(topic.options, FROM_TOPIC)


def own_entries(options: OwnOptions, set_here: int) -> list[DescribeConfigsResourceResult]:
    """A topic's or a group's options, with where each comes from: ``set_here`` is what its own come from."""
    entries = []
    for name, option in options.TABLE.items():
        inherited_from = FROM_BROKER if options.from_broker(name) else FROM_DEFAULT
        source = set_here if name in options.own else inherited_from
        inherited = DescribeConfigsSynonym(
            name=option.broker or name, value=as_text(options.inherited(name)), source=inherited_from
        )
        value = options.own.get(name, inherited.value)
        own = [DescribeConfigsSynonym(name=name, value=value, source=set_here)] if source == set_here else []
        entries.append(_entry(name, value, source, option.code, [*own, inherited], read_only=False))
    return entries


def _broker_entries(options: BrokerOptions) -> list[DescribeConfigsResourceResult]:
    entries = []
    for name, option in BROKER.items():
        source = FROM_BROKER if name in options.given else FROM_DEFAULT
        value = as_text(options.value(name))
        synonym = DescribeConfigsSynonym(name=name, value=value, source=source)
        entries.append(_entry(name, value, source, option.code, [synonym], read_only=True))
    return entries


def _entry(
    name: str, value: str | None, source: int, code: int, synonyms: list[DescribeConfigsSynonym], read_only: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=code,
        documentation=None,
    )
