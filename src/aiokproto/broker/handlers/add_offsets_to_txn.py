"""AddOffsetsToTxn: add a group's partition of the offsets topic to a transaction (KIP-98). v2: PRODUCER_FENCED
errors."""

from __future__ import annotations

from aiokproto.broker.metadata.topics import OFFSETS_TOPIC
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import ProducerIdAndEpoch, fencing_code
from aiokproto.codec.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Required(Operation.READ, ResourceType.GROUP),
)


async def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    code = ErrorCode.NONE
    try:
        context.transactions.check(request.transactional_id, context.node.node_id)
        partition = (OFFSETS_TOPIC, context.groups.partition_of(request.group_id).index)
        context.transactions.add_partitions(request.transactional_id, producer, [partition])
    except BrokerError as error:
        code = fencing_code(error.code, context.version >= 2)
    return AddOffsetsToTxnResponse(error_code=code)
