"""PushTelemetry (ApiKey 72): send client metrics to the broker (KIP-714)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int8, int16, int32, uuid
from aiokproto.codec.wire import ZERO_UUID


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0


class PushTelemetryRequest(Request[PushTelemetryResponse], key=72, versions="0", flexible="0+", route=Route.BROKER):
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    terminating: bool = False
    compression_type: int8 = 0
    metrics: bytes = b""
