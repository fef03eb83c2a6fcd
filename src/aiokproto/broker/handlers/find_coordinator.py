"""FindCoordinator v0-6: who coordinates a group. Several keys at once since v4.

Transactional ids and share groups are not served: they get INVALID_REQUEST, which no client retries.
"""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.error_codes import ErrorCode

REQUEST = FindCoordinatorRequest
VERSIONS = "0-6"

GROUP = 0
_KINDS = {1: "transactions", 2: "share groups"}


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
    if kind != GROUP:
        text = f"this broker serves no {_KINDS.get(kind, f'coordinators of type {kind}')}"
        return _failed(key, ErrorCode.INVALID_REQUEST, text)
    node = context.state.nodes.get(context.groups.partition_of(key).leader)
    if node is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the partition of the offsets topic has no leader")
    return Coordinator(
        key=key, node_id=node.node_id, host=node.host, port=node.port, error_code=ErrorCode.NONE, error_message=None
    )


def _failed(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)
