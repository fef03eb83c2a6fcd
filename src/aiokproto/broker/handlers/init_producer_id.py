"""InitProducerId: allocate a producer id, or fence the previous producer of a transactional id (KIP-98).

v3 (KIP-360): the current producer id and epoch. v4: PRODUCER_FENCED errors. v6 (KIP-939): two-phase commit, which needs
``unstable.api.versions.enable``, as in Kafka. ``keep_prepared_txn`` is supported here; Kafka 4.4 responds
UNSUPPORTED_VERSION to it.
"""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    fencing_code,
)
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, otherwise="refuses the request"),
    Required(
        Operation.TWO_PHASE_COMMIT,
        ResourceType.TRANSACTIONAL_ID,
        versions=Versions.parse("6+"),
        otherwise="refuses two-phase commit",
    ),
    Required(Operation.WRITE, ResourceType.TOPIC, otherwise="needs IDEMPOTENT_WRITE if it has no transactional id"),
    Required(
        Operation.IDEMPOTENT_WRITE,
        ResourceType.CLUSTER,
        otherwise="needs WRITE on any topic if it has no transactional id",
    ),
)


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    try:
        return _init(request, context)
    except BrokerError as error:
        # PRODUCER_FENCED was added in v4 (KIP-588). Earlier clients only know INVALID_PRODUCER_EPOCH.
        code = fencing_code(error.code, context.version >= 4)
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _init(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    known = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    # The id and the epoch go together (KIP-360): an id alone can't prove that the producer wasn't fenced.
    if (known.producer_id == NO_PRODUCER_ID) != (known.epoch == NO_EPOCH):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        # Permission to write to any topic implies permission for idempotent writes (KIP-679).
        if not context.security.is_authorized_for_any(context.connection, Operation.WRITE, ResourceType.TOPIC):
            context.authorize(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
        # A producer without a transactional id has no predecessor to fence. As in Kafka, every request gets a new id.
        return _response(ProducerIdAndEpoch(context.state.new_producer_id(), 0))
    if request.enable2_pc:
        context.authorize(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.transactions.check(request.transactional_id, context.node.node_id)
    transaction = context.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        None if known.producer_id == NO_PRODUCER_ID else known,
        two_phase=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
    return _response(transaction.identity, transaction.ongoing)


def _response(producer: ProducerIdAndEpoch, ongoing: ProducerIdAndEpoch | None = None) -> InitProducerIdResponse:
    kept = ongoing or ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        ongoing_txn_producer_id=kept.producer_id,
        ongoing_txn_producer_epoch=kept.epoch,
    )
