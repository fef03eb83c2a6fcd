"""PushTelemetry (ApiKey 72): push client metrics to the broker (KIP-714)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int8, int16, int32, uuid
from aiokproto.codec.wire import ZERO_UUID


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    """Whether the broker accepted the metrics. Errors: see `PushTelemetryRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0


class PushTelemetryRequest(Request[PushTelemetryResponse], key=72, versions="0", flexible="0+", route=Route.BROKER):
    """Push metrics of the client.

    Sent by clients once per push interval, to the broker that returned the subscription.

    Errors: UNKNOWN_SUBSCRIPTION_ID and UNSUPPORTED_COMPRESSION_TYPE (request the subscription again),
    TELEMETRY_TOO_LARGE, THROTTLING_QUOTA_EXCEEDED (pushed too early), INVALID_REQUEST, INVALID_RECORD,
    UNKNOWN_SERVER_ERROR.
    """

    client_instance_id: uuid = ZERO_UUID
    """Id from the GetTelemetrySubscriptions response."""
    subscription_id: int32 = 0
    """Subscription from the same response."""
    terminating: bool = False
    """True: the client is closing and this is its last push, allowed before the interval has passed."""
    compression_type: int8 = 0
    """Codec of `metrics`: 0: none; 1: gzip; 2: snappy; 3: lz4; 4: zstd."""
    metrics: bytes = b""
    """OpenTelemetry MetricsData (protobuf, v1), compressed."""
