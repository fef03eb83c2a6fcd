"""InitProducerId v0-5: an id for an idempotent producer; the one it had before (v3) matters only with transactions.

Transactional ids are not served; v6 is not stable in Kafka.
"""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.error_codes import ErrorCode

REQUEST = InitProducerIdRequest
VERSIONS = "0-5"


async def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            throttle_time_ms=0, error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1
        )
    # Without a transactional id nobody has to be fenced, so whoever comes gets an id of its own, as in Kafka.
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        producer_id=context.state.new_producer_id(),
        producer_epoch=0,
    )
