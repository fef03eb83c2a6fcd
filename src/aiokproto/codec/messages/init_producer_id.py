"""InitProducerId (ApiKey 22): get a producer id and epoch, and fence older producers of the transactional id."""

from __future__ import annotations

from aiokproto.codec.schema import ProducerId, Request, Response, Route, TransactionalId, field, int16, int32


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+", client_throttles="1+"):
    """The producer's identity. Errors: see `InitProducerIdRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: ProducerId = -1
    """Id to put into record batches; -1: an error."""
    producer_epoch: int16 = field(default=0, refused=-1)
    """Epoch to put into record batches; -1: an error."""
    ongoing_txn_producer_id: ProducerId = field("6+", default=-1)
    """Producer id of the prepared transaction that was retained; -1: none is ongoing."""
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)
    """Epoch of that transaction; -1: none is ongoing."""


class InitProducerIdRequest(
    Request[InitProducerIdResponse], key=22, versions="0-6", flexible="2+", unstable="6", route=Route.TRANSACTION
):
    """Get a producer id and epoch.

    Sent by transactional producers to the transaction coordinator, which fences older producers of the transactional id
    and aborts their open transaction; or by idempotent producers without a transactional id to any broker.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, INVALID_TRANSACTION_TIMEOUT, INVALID_REQUEST,
    INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH (versions 0-3), PRODUCER_FENCED (version 4+),
    CONCURRENT_TRANSACTIONS (the older transaction is still being completed: retry), TRANSACTION_ABORTABLE (version 5+).
    """

    transactional_id: TransactionalId | None = ""
    """`transactional.id`; null: an idempotent producer without transactions."""
    transaction_timeout_ms: int32 = 0
    """The coordinator aborts a transaction that has been open for longer than this, in ms. Limited by the broker's
    `transaction.max.timeout.ms`."""
    producer_id: ProducerId = field("3+", default=-1)
    """Current id of the producer, to bump its epoch after an error (KIP-360); -1: none yet."""
    producer_epoch: int16 = field("3+", default=-1)
    """Current epoch of the producer; -1: none yet."""
    enable2_pc: bool = field("6+", default=False)
    """True: the producer uses two-phase commit (KIP-939), and its transactions don't time out."""
    keep_prepared_txn: bool = field("6+", default=False)
    """True: retain the ongoing transaction instead of aborting it (KIP-939)."""
