"""GetTelemetrySubscriptions (ApiKey 71): which metrics the broker wants of this client (KIP-714)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int8, int16, int32, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    accepted_compression_types: list[int8] = field(factory=list)
    push_interval_ms: int32 = 0
    telemetry_max_bytes: int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[string] = field(factory=list)


class GetTelemetrySubscriptionsRequest(
    Request[GetTelemetrySubscriptionsResponse], key=71, versions="0", flexible="0+", route=Route.BROKER
):
    client_instance_id: uuid = ZERO_UUID
