"""ListConfigResources: the resources that have options (KIP-1142). v0 (ListClientMetricsResources) lists only client
metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiokproto.broker.handlers.describe_configs import BROKER_RESOURCE, GROUP_RESOURCE, METRICS_RESOURCE, TOPIC_RESOURCE
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

LOGGER_RESOURCE = 8

_NAMES: dict[int, Callable[[RequestContext], Iterable[str]]] = {
    TOPIC_RESOURCE: lambda context: context.state.topics,
    BROKER_RESOURCE: lambda context: [str(node.node_id) for node in context.state.nodes.values()],
    LOGGER_RESOURCE: lambda context: [str(node.node_id) for node in context.state.nodes.values()],
    METRICS_RESOURCE: lambda context: context.telemetry.subscriptions,
    GROUP_RESOURCE: lambda context: context.state.configured_groups(),
}

REQUIRES = (Required(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),)


async def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    kinds = [METRICS_RESOURCE] if context.version == 0 else sorted(set(request.resource_types)) or list(_NAMES)
    unknown = [kind for kind in kinds if kind not in _NAMES]
    if unknown:
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, detail=f"resource type {unknown[0]} is unknown")
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in kinds
            async for name in context.each(list(_NAMES[kind](context)))
        ],
    )
