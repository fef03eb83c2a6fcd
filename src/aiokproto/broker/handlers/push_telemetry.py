"""PushTelemetry: receive client metrics (KIP-714)."""

from __future__ import annotations

from aiokproto.broker.handlers.get_telemetry_subscriptions import matched_client
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.telemetry import PushedMetrics
from aiokproto.codec.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES: tuple[Required, ...] = ()


async def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    push = PushedMetrics(context.client_id, instance_id, request.terminating, bytes(request.metrics))
    client = matched_client(instance_id, context)
    context.telemetry.push(push, request.subscription_id, request.compression_type, client)
    return PushTelemetryResponse(error_code=ErrorCode.NONE)
