"""AlterUserScramCredentials: set and delete users' SCRAM credentials (KIP-554)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.security.credentials import Deletion, Upsertion
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from aiokproto.error_codes import ErrorCode

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    deletions = [Deletion(each.name, each.mechanism) async for each in context.each(request.deletions)]
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        async for each in context.each(request.upsertions)
    ]
    results = await context.turns.finish(context.security.altering_credentials(deletions, upsertions))
    await context.security.saved()
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.detail,
            )
            async for user, error in context.each(results.items())
        ],
    )
