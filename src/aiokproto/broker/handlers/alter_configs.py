"""AlterConfigs: replace all options of topics, groups and brokers. Deprecated in favor of IncrementalAlterConfigs
(KIP-339)."""

from __future__ import annotations

from aiokproto.broker.handlers.changed_configs import Change, change_resource
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

REQUIRES = (
    Required(Operation.ALTER_CONFIGS, ResourceType.TOPIC, otherwise="refuses these resources"),
    Required(Operation.ALTER_CONFIGS, ResourceType.GROUP, otherwise="refuses these resources"),
    Required(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, otherwise="refuses these resources"),
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            change_resource(
                AlterConfigsResourceResponse, resource, _replacement(resource), context, dry_run=request.validate_only
            )
            async for resource in context.each(request.resources)
        ],
    )


def _replacement(resource: AlterConfigsResource) -> Change:
    return lambda _: {config.name: config.value for config in resource.configs}
