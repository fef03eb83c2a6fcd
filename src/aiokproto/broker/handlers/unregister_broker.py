"""UnregisterBroker: forget a node. Those of this cluster are its own, and stay."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.codec.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from aiokproto.error_codes import ErrorCode


async def handle(request: UnregisterBrokerRequest, context: Context) -> UnregisterBrokerResponse:
    if request.broker_id in context.state.nodes:
        error, text = ErrorCode.UNSUPPORTED_VERSION, "the nodes of an embedded cluster are fixed"
    else:
        error, text = ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered"
    return UnregisterBrokerResponse(throttle_time_ms=0, error_code=error, error_message=text)
