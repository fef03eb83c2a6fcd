"""FindCoordinator v0-6: who coordinates a group or a transactional id. Several keys at once since v4.

Share groups are not served: they get INVALID_REQUEST, which no client retries.
"""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.broker.security.acls import REFUSALS, Operation, ResourceType
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.error_codes import ErrorCode

REQUEST = FindCoordinatorRequest
VERSIONS = "0-6"

GROUP, TRANSACTION = 0, 1


async def handle(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    if context.version >= 4:
        found = [_find(key, request.key_type, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key: str, kind: int, context: Context) -> Coordinator:
    if kind not in (GROUP, TRANSACTION):
        return _failed(key, ErrorCode.INVALID_REQUEST, f"this broker serves no coordinators of type {kind}")
    resource_type = ResourceType.GROUP if kind == GROUP else ResourceType.TRANSACTIONAL_ID
    if not context.may(Operation.DESCRIBE, resource_type, key):
        return _failed(key, REFUSALS[resource_type], f"not authorized to describe {key!r}")
    coordinator = context.groups if kind == GROUP else context.transactions
    partition = coordinator.partition_of(key)
    node = context.state.nodes.get(partition.leader)
    if node is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"a partition of {partition.topic} has no leader")
    return Coordinator(
        key=key, node_id=node.node_id, host=node.host, port=node.port, error_code=ErrorCode.NONE, error_message=None
    )


def _failed(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)
