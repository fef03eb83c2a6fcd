"""DescribeQuorum: the voters of the metadata quorum (KIP-595). All nodes are voters, and the controller is the leader.

The metadata log isn't replicated, so epochs and times are -1, Kafka's value for unknown.
"""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from aiokproto.error_codes import ErrorCode

METADATA = ("__cluster_metadata", 0)
_UNKNOWN = -1
_NODES_SINCE = 2

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.CLUSTER),)


async def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    # Older versions have no field for the nodes.
    nodes = context.state.nodes.values() if context.version >= _NODES_SINCE else ()
    topics: list[DescribeQuorumResponseTopicData] = []
    async for topic in context.each(request.topics):
        partitions = [
            _describe(topic.topic_name, requested.partition_index, context)
            async for requested in context.each(topic.partitions)
        ]
        topics.append(DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=topics,
        nodes=[
            Node(node_id=node.node_id, listeners=[Listener(name="CONTROLLER", host=node.host, port=node.port)])
            for node in nodes
        ],
    )


def _describe(topic: str, index: int, context: RequestContext) -> DescribeQuorumResponsePartitionData:
    state = context.state
    is_metadata = (topic, index) == METADATA
    # Every node reads the same log in this process, so no node is behind.
    end = state.metadata.end_offset if is_metadata else _UNKNOWN
    voters = state.nodes if is_metadata else ()
    return DescribeQuorumResponsePartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE if is_metadata else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        leader_id=state.controller_id if is_metadata else _UNKNOWN,
        leader_epoch=_UNKNOWN,
        high_watermark=end,
        current_voters=[ReplicaState(replica_id=node_id, log_end_offset=end) for node_id in voters],
        observers=[],
    )
