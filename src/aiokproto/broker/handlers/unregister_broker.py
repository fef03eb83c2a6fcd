"""UnregisterBroker: remove a stopped node. Its replicas are assigned to other nodes."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from aiokproto.error_codes import ErrorCode

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    node = context.state.nodes.get(request.broker_id)
    if node is None:
        error, text = ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered"
    elif node.alive:
        error, text = ErrorCode.INVALID_REQUEST, f"broker {request.broker_id} is running"
    else:
        context.state.remove_node(request.broker_id)
        error, text = ErrorCode.NONE, None
    return UnregisterBrokerResponse(error_code=error, error_message=text)
