"""DescribeConfigs v0-4: options of topics (resource type 2) and brokers (4). v1 synonyms, v3 types.

Of a broker only what this one knows is listed, and nothing can be changed while it runs. No documentation is given.
"""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.options import BROKER, TOPIC, BrokerOptions, as_text
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

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
FROM_TOPIC, FROM_BROKER, FROM_DEFAULT = 1, 4, 5


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
    if asked.resource_type == TOPIC_RESOURCE:
        topic = context.state.topics.get(asked.resource_name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(topic)
    if asked.resource_type == BROKER_RESOURCE:
        if asked.resource_name != str(context.node.node_id):
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"this is broker {context.node.node_id}")
        return _broker_entries(context.state.options)
    raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"resources of type {asked.resource_type} have no options here")


def topic_entries(topic: Topic) -> list[DescribeConfigsResourceResult]:
    """A topic's options, with where each comes from."""
    entries = []
    for name, option in TOPIC.items():
        options = topic.options
        inherited_from = FROM_BROKER if options.from_broker(name) else FROM_DEFAULT
        source = FROM_TOPIC if name in options.own else inherited_from
        inherited = DescribeConfigsSynonym(
            name=option.broker or name, value=as_text(options.inherited(name)), source=inherited_from
        )
        value = options.own.get(name, inherited.value)
        own = [DescribeConfigsSynonym(name=name, value=value, source=FROM_TOPIC)] if source == FROM_TOPIC else []
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
