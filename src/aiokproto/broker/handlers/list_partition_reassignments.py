"""ListPartitionReassignments: the ongoing reassignments (KIP-455). There are none, because reassignments complete
immediately."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from aiokproto.error_codes import ErrorCode

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.CLUSTER),)


async def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])
