"""DescribeCluster: the nodes (KIP-700). v1: endpoint type, which is always broker (1) here. v2: fenced brokers."""

from __future__ import annotations

from aiokproto.broker.handlers.metadata import cluster_operations
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from aiokproto.error_codes import ErrorCode

BROKERS = 1

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.CLUSTER, otherwise="reports no operations on the cluster"),)


async def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    state = context.state
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this is a broker's listener, not a controller's",
            cluster_id=state.cluster_id,
            brokers=[],
        )
    nodes = state.nodes.values() if request.include_fenced_brokers else state.alive
    brokers = []
    for node in nodes:
        broker = DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        if not node.alive:
            broker.is_fenced = True
        brokers.append(broker)
    response = DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response
