"""CreatePartitions: add partitions to topics (KIP-195)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.required import Required
from aiokproto.codec.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.ALTER, ResourceType.TOPIC),)


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    context.mutation_quota.strict = context.version >= 3
    return CreatePartitionsResponse(
        results=[_grow(topic, request.validate_only, context) async for topic in context.each(request.topics)]
    )


def _grow(requested: CreatePartitionsTopic, dry_run: bool, context: RequestContext) -> CreatePartitionsTopicResult:
    assignments = None if requested.assignments is None else [each.broker_ids for each in requested.assignments]
    try:
        topic = context.state.topics.get(requested.name)
        context.mutation_quota.record(max(requested.count - len(topic.partitions), 0) if topic is not None else 0)
        context.state.add_partitions(requested.name, requested.count, assignments, dry_run=dry_run)
    except BrokerError as error:
        return CreatePartitionsTopicResult(name=requested.name, error_code=error.code, error_message=error.detail)
    return CreatePartitionsTopicResult(name=requested.name, error_code=ErrorCode.NONE)
