"""AlterClientQuotas: set and remove quotas of users, client ids and IP addresses (KIP-546)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),)


async def handle(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    entries = [await _alter(entry, request.validate_only, context) async for entry in context.each(request.entries)]
    await context.security.saved()
    return AlterClientQuotasResponse(entries=entries)


async def _alter(
    entry: AlterClientQuotasRequestEntryData, dry_run: bool, context: RequestContext
) -> AlterClientQuotasResponseEntryData:
    entity = [(each.entity_type, each.entity_name) async for each in context.each(entry.entity)]
    response = AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.NONE,
        error_message=None,
        entity=[EntityData(entity_type=kind, entity_name=name) async for kind, name in context.each(entity)],
    )
    try:
        changes = [(change.key, None if change.remove else change.value) async for change in context.each(entry.ops)]
        context.security.alter_quotas(entity, changes, dry_run=dry_run)
    except BrokerError as error:
        response.error_code, response.error_message = error.code, error.detail
    return response
