"""DescribeUserScramCredentials: users' SCRAM mechanisms and iterations (KIP-554). The error messages are Kafka's."""

from __future__ import annotations

from collections import Counter

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.texts import shortened

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.CLUSTER),)


async def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    requested = Counter(user.name for user in request.users or ())
    users = list(requested) or context.security.credentials.users
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[_describe(user, requested[user] > 1, context) async for user in context.each(users)],
    )


def _describe(user: str, duplicate: bool, context: RequestContext) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(
        user=user, error_code=ErrorCode.NONE, error_message=None, credential_infos=[]
    )
    credentials = context.security.credentials.of(user)
    shown = shortened(user)
    if duplicate:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {shown}"
    elif not credentials:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {shown}"
    else:
        result.credential_infos = [
            CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism, credential in credentials.items()
        ]
    return result
