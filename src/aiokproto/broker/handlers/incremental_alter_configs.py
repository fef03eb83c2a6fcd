"""IncrementalAlterConfigs v0-1: change options of topics. Those of brokers cannot be changed while they run."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.handlers.describe_configs import TOPIC_RESOURCE
from aiokproto.broker.options import TOPIC, TopicOptions, as_text
from aiokproto.broker.topics import Topic
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUEST = IncrementalAlterConfigsRequest
VERSIONS = "0-1"

SET, DELETE, APPEND, SUBTRACT = range(4)


async def handle(request: IncrementalAlterConfigsRequest, context: Context) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=0,
        responses=[_answer(resource, request.validate_only, context) for resource in request.resources],
    )


def _answer(asked: AlterConfigsResource, dry_run: bool, context: Context) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
    try:
        if asked.resource_type != TOPIC_RESOURCE:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="only topics' options can be changed here")
        topic = context.state.topics.get(asked.resource_name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        options = TopicOptions(_changed(topic, asked.configs), context.state.options)
        if not dry_run:
            context.state.configure_topic(topic, options.own)
    except BrokerError as error:
        answer.error_code, answer.error_message = error.code, error.detail
    return answer


def _changed(topic: Topic, changes: list[AlterableConfig]) -> dict[str, str | None]:
    configs: dict[str, str | None] = dict(topic.options.own)
    for change in changes:
        if change.config_operation == SET:
            configs[change.name] = change.value
        elif change.config_operation == DELETE:
            configs.pop(change.name, None)
        elif change.config_operation in (APPEND, SUBTRACT):
            configs[change.name] = _change_list(topic, change)
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"operation {change.config_operation}")
    return configs


def _change_list(topic: Topic, change: AlterableConfig) -> str:
    if change.name not in TOPIC or not TOPIC[change.name].many:
        raise BrokerError(ErrorCode.INVALID_CONFIG, detail=f"{change.name} is no list")
    words = as_text(topic.options.value(change.name)).split(",")
    named = (change.value or "").split(",")
    if change.config_operation == APPEND:
        return ",".join([*words, *(word for word in named if word not in words)])
    return ",".join(word for word in words if word not in named)
