"""GetTelemetrySubscriptions (ApiKey 71): read which client metrics the broker wants pushed (KIP-714)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int8, int16, int32, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    """The metrics to push, and how. Errors: see `GetTelemetrySubscriptionsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid = ZERO_UUID
    """Id of this client instance; a new id if it was zero in the request."""
    subscription_id: int32 = 0
    """Id of this set of metrics, to send with each PushTelemetry. It changes with the set."""
    accepted_compression_types: list[int8] = field(factory=list)
    """Codecs the broker accepts, preferred first: 0: none, 1: gzip, 2: snappy, 3: lz4, 4: zstd."""
    push_interval_ms: int32 = 0
    """Time between two pushes, in ms."""
    telemetry_max_bytes: int32 = 0
    """Size limit of the `metrics` of a PushTelemetry, in bytes."""
    delta_temporality: bool = False
    """True: push counters as the difference from the previous push; false: as totals."""
    requested_metrics: list[string] = field(factory=list)
    """Prefixes of metric names to push; empty: none; one empty string: all."""


class GetTelemetrySubscriptionsRequest(
    Request[GetTelemetrySubscriptionsResponse], key=71, versions="0", flexible="0+", route=Route.BROKER
):
    """Read which metrics to push.

    Sent by clients to a broker of their choice, to which they then push.

    Errors: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED (requested again before the push interval ended),
    UNKNOWN_SERVER_ERROR.
    """

    client_instance_id: uuid = ZERO_UUID
    """Id from an earlier response; zero in the first request."""
