"""AlterPartitionReassignments: assign the replicas of partitions to other nodes (KIP-455).

v1: ``allow_replication_factor_change``. All nodes share the data, so a reassignment is complete by the time the
response is sent. There is never one to cancel.
"""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    may_resize = request.allow_replication_factor_change
    topics: list[ReassignableTopicResponse] = []
    async for topic in context.each(request.topics):
        partitions = [
            _reassign(topic.name, requested, may_resize, context) async for requested in context.each(topic.partitions)
        ]
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize, error_code=ErrorCode.NONE, error_message=None, responses=topics
    )


def _reassign(
    topic: str, requested: ReassignablePartition, may_resize: bool, context: RequestContext
) -> ReassignablePartitionResponse:
    index = requested.partition_index
    response = ReassignablePartitionResponse(partition_index=index, error_code=ErrorCode.NONE, error_message=None)
    try:
        if requested.replicas is None:
            context.state.partition(topic, index)
            raise BrokerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        context.state.reassign(topic, index, requested.replicas, may_resize=may_resize)
    except BrokerError as error:
        response.error_code, response.error_message = error.code, error.detail
    return response
