"""CreatePartitions: add partitions to topics (KIP-195)."""

from __future__ import annotations

from aiokproto.broker.metadata.cluster_state import check_new_partitions
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
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
    check_new_partitions(_added(topic, context) for topic in request.topics)
    return CreatePartitionsResponse(
        results=[_grow(topic, request.validate_only, context) async for topic in context.each(request.topics)]
    )


def _grow(requested: CreatePartitionsTopic, dry_run: bool, context: RequestContext) -> CreatePartitionsTopicResult:
    assignments = None if requested.assignments is None else [each.broker_ids for each in requested.assignments]
    try:
        context.mutation_quota.record(_added(requested, context))
        context.state.add_partitions(requested.name, requested.count, assignments, dry_run=dry_run)
    except BrokerError as error:
        return CreatePartitionsTopicResult(name=requested.name, error_code=error.code, error_message=error.detail)
    return CreatePartitionsTopicResult(name=requested.name, error_code=ErrorCode.NONE)


def _added(requested: CreatePartitionsTopic, context: RequestContext) -> int:
    topic = context.state.topics.get(requested.name)
    return max(requested.count - len(topic.partitions), 0) if topic is not None else 0
