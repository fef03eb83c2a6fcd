"""AlterConfigs v0-2: replace all options of topics and groups. IncrementalAlterConfigs has taken its place."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.handlers.describe_configs import GROUP_RESOURCE, TOPIC_RESOURCE, require_for_configs
from aiokproto.broker.options import GroupOptions, TopicOptions
from aiokproto.broker.security.acls import Operation
from aiokproto.codec.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUEST = AlterConfigsRequest
VERSIONS = "0-2"


async def handle(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
        _replace(asked, dry_run, context)
    except BrokerError as error:
        answer.error_code, answer.error_message = error.code, error.detail
    return answer


def _replace(asked: AlterConfigsResource, dry_run: bool, context: Context) -> None:
    configs = {config.name: config.value for config in asked.configs}
    if asked.resource_type == TOPIC_RESOURCE:
        topic = context.state.topics.get(asked.resource_name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        of_topic = TopicOptions(configs, context.state.options)
        if not dry_run:
            context.state.configure_topic(topic, of_topic.own)
    elif asked.resource_type == GROUP_RESOURCE and asked.resource_name:
        of_group = GroupOptions(configs, context.state.options)
        if not dry_run:
            context.groups.configure(asked.resource_name, of_group)
    else:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail="only topics' and groups' options can be changed here")
