"""PushTelemetry: receive client metrics (KIP-714). A valid push is accepted and ignored."""

from __future__ import annotations

from aiokproto.broker.handlers.get_telemetry_subscriptions import ACCEPTED, MAX_BYTES, SUBSCRIPTION_ID
from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.records import Compression


async def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=_validate(request))


def _validate(request: PushTelemetryRequest) -> ErrorCode:
    if request.client_instance_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != SUBSCRIPTION_ID:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in (Compression.NONE, *ACCEPTED):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > MAX_BYTES else ErrorCode.NONE
