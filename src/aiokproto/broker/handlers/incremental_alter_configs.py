"""IncrementalAlterConfigs: change options of topics, groups and brokers (KIP-226)."""

from __future__ import annotations

from aiokproto.broker.config.options import OwnOptions, as_text
from aiokproto.broker.handlers.changed_configs import Change, answer
from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

SET, DELETE, APPEND, SUBTRACT = range(4)


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            answer(AlterConfigsResourceResponse, asked, _changes(asked), context, dry_run=request.validate_only)
            for asked in request.resources
        ],
    )


def _changes(asked: AlterConfigsResource) -> Change:
    return lambda options: _changed(options, asked.configs)


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
    words = [word for word in as_text(options.value(change.name)).split(",") if word]
    named = [word for word in (change.value or "").split(",") if word]
    if change.config_operation == APPEND:
        return ",".join([*words, *(word for word in named if word not in words)])
    return ",".join(word for word in words if word not in named)
