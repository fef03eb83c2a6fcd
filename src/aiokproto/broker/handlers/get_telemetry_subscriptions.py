"""GetTelemetrySubscriptions: which client metrics the broker subscribes to (KIP-714). Here it is none."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.records import Compression
from aiokproto.runtime import current

SUBSCRIPTION_ID = 0
"""The id of the empty subscription. Another id would make clients fetch their subscriptions again."""
MAX_BYTES = 1 << 20
PUSH_INTERVAL_MS = 300_000
ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""In order of preference. Uncompressed metrics are accepted too, which Kafka does not list either."""


async def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=current().uuid().bytes
        if request.client_instance_id == ZERO_UUID
        else request.client_instance_id,
        subscription_id=SUBSCRIPTION_ID,
        accepted_compression_types=[int(codec) for codec in ACCEPTED],
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=MAX_BYTES,
        delta_temporality=True,
        requested_metrics=[],
    )
