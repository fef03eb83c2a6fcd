"""IncrementalAlterConfigs v0-1: change options of topics and groups. Those of brokers are fixed."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.handlers.describe_configs import GROUP_RESOURCE, TOPIC_RESOURCE, require_for_configs
from aiokproto.broker.options import GroupOptions, OwnOptions, TopicOptions, as_text
from aiokproto.broker.security.acls import Operation
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
        require_for_configs(context, Operation.ALTER_CONFIGS, asked.resource_type, asked.resource_name)
        if asked.resource_type == TOPIC_RESOURCE:
            _alter_topic(asked, dry_run, context)
        elif asked.resource_type == GROUP_RESOURCE:
            _alter_group(asked, dry_run, context)
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="only topics' and groups' options can be changed here")
    except BrokerError as error:
        answer.error_code, answer.error_message = error.code, error.detail
    return answer


def _alter_topic(asked: AlterConfigsResource, dry_run: bool, context: Context) -> None:
    topic = context.state.topics.get(asked.resource_name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    options = TopicOptions(_changed(topic.options, asked.configs), context.state.options)
    if not dry_run:
        context.state.configure_topic(topic, options.own)


def _alter_group(asked: AlterConfigsResource, dry_run: bool, context: Context) -> None:
    if not asked.resource_name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the name of a group is empty")
    before = context.groups.options(asked.resource_name)
    options = GroupOptions(_changed(before, asked.configs), context.state.options)
    if not dry_run:
        context.groups.configure(asked.resource_name, options)


def _changed(options: OwnOptions, changes: list[AlterableConfig]) -> dict[str, str | None]:
    configs: dict[str, str | None] = dict(options.own)
    for change in changes:
        if change.config_operation == SET:
            configs[change.name] = change.value
        elif change.config_operation == DELETE:
            configs.pop(change.name, None)
        elif change.config_operation in (APPEND, SUBTRACT):
            configs[change.name] = _change_list(options, change)
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"operation {change.config_operation}")
    return configs


def _change_list(options: OwnOptions, change: AlterableConfig) -> str:
    if change.name not in options.TABLE or not options.TABLE[change.name].many:
        raise BrokerError(ErrorCode.INVALID_CONFIG, detail=f"{change.name} is no list")
    words = as_text(options.value(change.name)).split(",")
    named = (change.value or "").split(",")
    if change.config_operation == APPEND:
        return ",".join([*words, *(word for word in named if word not in words)])
    return ",".join(word for word in words if word not in named)
