"""EndTxn (ApiKey 26): commit or abort a transaction."""

from __future__ import annotations

from aiokproto.codec.schema import ProducerId, Request, Response, Route, TransactionalId, field, int16, int32


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+", client_throttles="1+"):
    """The producer id and epoch for the next transaction. Errors: see `EndTxnRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: ProducerId = field("5+", default=-1, ignorable=True)
    """Producer id for the next transaction; differs from the one in the request if its epochs are exhausted. -1: an
    error."""
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)
    """Epoch for the next transaction (KIP-890: one higher after each transaction); -1: an error."""


class EndTxnRequest(Request[EndTxnResponse], key=26, versions="0-5", flexible="3+", route=Route.TRANSACTION):
    """Commit or abort the producer's ongoing transaction.

    Sent by transactional producers to the transaction coordinator.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH (versions 0-1),
    PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS (the previous end is still being completed: retry),
    TRANSACTION_ABORTABLE (version 4+), INVALID_REQUEST.
    """

    transactional_id: TransactionalId = ""
    """`transactional.id` of the producer."""
    producer_id: ProducerId = 0
    """Id that InitProducerId returned to the producer."""
    producer_epoch: int16 = 0
    """Epoch of `producer_id`. The broker rejects an epoch older than the newest it knows."""
    committed: bool = False
    """True: commit; false: abort."""
