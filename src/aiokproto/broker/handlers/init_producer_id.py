"""InitProducerId: an id for an idempotent producer, or the one that may use a transactional id from now on.

v3 (KIP-360) says which id and epoch the producer had before, v4 knows PRODUCER_FENCED. v6 is not stable in Kafka.
"""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, ProducerIdentity, fencing_code
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    try:
        who = _init(request, context)
    except BrokerError as error:
        code = fencing_code(error.code, context.version >= 4)
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=who.producer_id, producer_epoch=who.epoch)


def _init(request: InitProducerIdRequest, context: RequestContext) -> ProducerIdentity:
    known = ProducerIdentity(request.producer_id, request.producer_epoch)
    if (known.producer_id == NO_PRODUCER_ID) != (known.epoch == NO_EPOCH):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        # Who may write to some topic may do so in order, too.
        if not context.guard.may_any(context.connection, Operation.WRITE, ResourceType.TOPIC):
            context.require(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
        # Nobody has to be fenced, so whoever comes gets an id of its own, as in Kafka.
        return ProducerIdentity(context.state.new_producer_id(), 0)
    context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.transactions.check(request.transactional_id, context.node.node_id)
    return context.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        None if known.producer_id == NO_PRODUCER_ID else known,
    ).identity
