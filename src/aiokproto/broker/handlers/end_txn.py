"""EndTxn: commit or abort a transaction. v2: PRODUCER_FENCED errors. v5 (KIP-890): the epoch of the next
transaction."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import EPOCH_BUMP, ProducerIdAndEpoch, fencing_code
from aiokproto.codec.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),)


async def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    version = EPOCH_BUMP if context.version >= 5 else 0
    try:
        context.transactions.check(request.transactional_id, context.node.node_id)
        after = context.transactions.end(request.transactional_id, producer, request.committed, version).identity
    except BrokerError as error:
        return EndTxnResponse(error_code=fencing_code(error.code, context.version >= 2))
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=after.producer_id, producer_epoch=after.epoch)
