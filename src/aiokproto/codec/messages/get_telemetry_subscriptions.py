"""GetTelemetrySubscriptions (ApiKey 71): which metrics the broker wants of this client (KIP-714)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    client_instance_id: uuid
    subscription_id: int32
    accepted_compression_types: list[int8]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: bool
    requested_metrics: list[string]


class GetTelemetrySubscriptionsRequest(
    Request[GetTelemetrySubscriptionsResponse], key=71, versions="0", flexible="0+", route=Route.BROKER
):
    client_instance_id: uuid
