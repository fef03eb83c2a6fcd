"""FindCoordinator: the coordinator of a group or transactional id. v4: several keys (KIP-699). v6: share partitions."""

from __future__ import annotations

from aiokproto.broker.metadata.topics import Partition
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, REFUSALS, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.share.coordinator import is_key
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.texts import shortened

GROUP, TRANSACTION, SHARE = 0, 1, 2
_SHARE_SINCE = 6

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.GROUP, otherwise="refuses the keys"),
    Required(
        Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, versions=Versions.parse("1+"), otherwise="refuses the keys"
    ),
    Required(
        Operation.CLUSTER_ACTION,
        ResourceType.CLUSTER,
        versions=Versions.parse("6+"),
        otherwise="refuses keys of share partitions",
    ),
)


async def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= 4:
        found = [_find(key, request.key_type, context) async for key in context.each(request.coordinator_keys)]
        # Each key has its own error in v4 (KIP-699).
        return FindCoordinatorResponse(coordinators=found)
    coordinator = _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _find(key: str, kind: int, context: RequestContext) -> Coordinator:
    if kind == SHARE and context.version >= _SHARE_SINCE and is_key(key):
        # The share coordinator gets requests only from nodes of the cluster.
        context.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return _found(key, context.share_states.partition_of(key), context)
    if kind not in (GROUP, TRANSACTION):
        return _failed(
            key,
            ErrorCode.INVALID_REQUEST,
            f"coordinator type {kind} is unknown, or {shortened(repr(key))} is not a key of this type",
        )
    resource_type = ResourceType.GROUP if kind == GROUP else ResourceType.TRANSACTIONAL_ID
    if not context.is_authorized(Operation.DESCRIBE, resource_type, key):
        return _failed(key, REFUSALS[resource_type], f"not authorized to describe {shortened(repr(key))}")
    # Look up the partition rather than the group: groups that don't exist yet have a coordinator, too. This creates the
    # topic.
    coordinator = context.groups if kind == GROUP else context.transactions
    return _found(key, coordinator.partition_of(key), context)


def _found(key: str, partition: Partition, context: RequestContext) -> Coordinator:
    node = context.state.nodes.get(partition.leader)
    if node is None:
        # This error is retriable, unlike an error in the key: the partition gets a leader once a replica is back.
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{partition.topic}-{partition.index} has no leader")
    return Coordinator(
        key=key, node_id=node.node_id, host=node.host, port=node.port, error_code=ErrorCode.NONE, error_message=None
    )


def _failed(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)
