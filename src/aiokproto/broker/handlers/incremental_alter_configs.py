"""IncrementalAlterConfigs: set, delete, append to or subtract from options of topics, groups and brokers (KIP-339)."""

from __future__ import annotations

from aiokproto.broker.config.options import ConfigOverrides, as_text
from aiokproto.broker.handlers.changed_configs import Change, change_resource
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
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

REQUIRES = (
    Required(Operation.ALTER_CONFIGS, ResourceType.TOPIC, otherwise="refuses these resources"),
    Required(Operation.ALTER_CONFIGS, ResourceType.GROUP, otherwise="refuses these resources"),
    Required(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, otherwise="refuses these resources"),
)


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            change_resource(
                AlterConfigsResourceResponse, resource, _changes(resource), context, dry_run=request.validate_only
            )
            async for resource in context.each(request.resources)
        ],
    )


def _changes(resource: AlterConfigsResource) -> Change:
    return lambda options: _changed(options, resource.configs)


def _changed(options: ConfigOverrides, changes: list[AlterableConfig]) -> dict[str, str | None]:
    configs: dict[str, str | None] = dict(options.overrides)
    for change in changes:
        if change.config_operation == SET:
            configs[change.name] = change.value
        elif change.config_operation == DELETE:
            configs.pop(change.name, None)
        elif change.config_operation in (APPEND, SUBTRACT):
            configs[change.name] = _change_list(options, change)
        else:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, detail=f"config operation {change.config_operation} is unknown"
            )
    return configs


def _change_list(options: ConfigOverrides, change: AlterableConfig) -> str:
    if change.name not in options.TABLE or not options.TABLE[change.name].many:
        raise BrokerError(ErrorCode.INVALID_CONFIG, detail=f"{change.name} is not a list")
    items = [item for item in as_text(options.value(change.name)).split(",") if item]
    operands = [item for item in (change.value or "").split(",") if item]
    if change.config_operation == APPEND:
        return ",".join([*items, *(item for item in operands if item not in items)])
    return ",".join(item for item in items if item not in operands)
