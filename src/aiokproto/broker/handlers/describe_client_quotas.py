"""DescribeClientQuotas: the configured quotas (KIP-546)."""

from __future__ import annotations

from aiokproto.broker.quotas.client_quotas import FilterComponent
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from aiokproto.error_codes import ErrorCode

REQUIRES = (Required(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),)


async def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
    components = [
        FilterComponent(each.entity_type, each.match_type, each.match)
        async for each in context.each(request.components)
    ]
    found = context.security.client_quotas.describe(components, strict=request.strict)
    return DescribeClientQuotasResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in found
        ],
    )
