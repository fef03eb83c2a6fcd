"""DescribeTopicPartitions: topics in pages, ordered by name (KIP-966).

There are no eligible leader replicas, as in a Kafka cluster in which that feature is disabled.
"""

from __future__ import annotations

from aiokproto.broker.metadata.topics import NO_LEADER, Partition, unknown_topic_error
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

MAX_PARTITIONS = 2000
"""Maximum number of partitions in a response, like Kafka's ``max.request.partition.size.limit``."""

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="refuses topics that are named, leaves out others"),
)


async def handle(request: DescribeTopicPartitionsRequest, context: RequestContext) -> DescribeTopicPartitionsResponse:
    start = request.cursor
    if start is not None and start.partition_index < 0:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"the cursor's partition index is {start.partition_index}")
    named = {topic.name for topic in request.topics}
    # As with Metadata, a request for all topics returns only the topics that the client may describe.
    names = named or {name async for name in context.each(list(context.state.topics)) if _visible(name, context)}
    remaining = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    response = DescribeTopicPartitionsResponse(topics=[])
    async for name in context.each(sorted(names)):
        if start is not None and name < start.topic_name:
            continue
        first = start.partition_index if start is not None and name == start.topic_name else 0
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        topic, after = _describe(name, first, remaining, context)
        response.topics.append(topic)
        remaining -= len(topic.partitions)
        if after is not None:
            response.next_cursor = Cursor(topic_name=name, partition_index=after)
            break
    return response


def _visible(name: str, context: RequestContext) -> bool:
    return context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _describe(
    name: str, first: int, limit: int, context: RequestContext
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """Return a topic with its partitions starting at ``first``, and the index of the next partition if there are
    more."""
    topic = context.state.topics.get(name)
    described = DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE, name=name, topic_id=ZERO_UUID, partitions=[]
    )
    if not _visible(name, context):
        described.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return described, None
    if topic is None:
        described.error_code = unknown_topic_error(name)
        return described, None
    described.topic_id, described.is_internal = topic.topic_id, topic.internal
    described.topic_authorized_operations = context.authorized_operations(ResourceType.TOPIC, name)
    end = min(first + limit, len(topic.partitions))
    described.partitions = [_describe_partition(partition, context) for partition in topic.partitions[first:end]]
    return described, end if end < len(topic.partitions) else None


def _describe_partition(partition: Partition, context: RequestContext) -> DescribeTopicPartitionsResponsePartition:
    nodes = context.state.nodes
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        # These lists are empty because the Java client fails on null ones.
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[node_id for node_id in partition.replicas if not nodes[node_id].alive],
    )
