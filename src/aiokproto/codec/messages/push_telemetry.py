"""PushTelemetry (ApiKey 72): send client metrics to the broker (KIP-714)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int8, int16, int32, uuid


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16


class PushTelemetryRequest(Request[PushTelemetryResponse], key=72, versions="0", flexible="0+", route=Route.BROKER):
    client_instance_id: uuid
    subscription_id: int32
    terminating: bool
    compression_type: int8
    metrics: bytes
