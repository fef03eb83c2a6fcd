"""GetTelemetrySubscriptions: which client metrics the broker subscribes to (KIP-714)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.telemetry import ACCEPTED, MAX_BYTES
from aiokproto.codec.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.runtime import current

REQUIRES: tuple[Required, ...] = ()


async def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = current().uuid().bytes
    subscription = context.telemetry.get(instance_id, matched_client(instance_id, context))
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED],
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=MAX_BYTES,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def matched_client(instance_id: bytes, context: RequestContext) -> dict[str, str]:
    """Return the client attributes that a subscription's ``match`` is applied to."""
    return {
        "client_instance_id": instance_id.hex(),
        "client_id": context.client_id,
        "client_source_address": context.client_host,
    }
