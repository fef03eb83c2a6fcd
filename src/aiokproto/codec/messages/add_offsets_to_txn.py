"""AddOffsetsToTxn (ApiKey 25): add a group whose offsets a transaction will commit."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, ProducerId, Request, Response, Route, TransactionalId, int16, int32


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+", client_throttles="1+"):
    """Whether the group's offsets partition now belongs to the transaction. Errors: see `AddOffsetsToTxnRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0


class AddOffsetsToTxnRequest(
    Request[AddOffsetsToTxnResponse], key=25, versions="0-4", flexible="3+", route=Route.TRANSACTION
):
    """Add a group to a transaction, before TxnOffsetCommit writes its offsets (KIP-98). Since transactions of
    version 2 (KIP-890) TxnOffsetCommit does this itself.

    Sent by transactional producers to the coordinator of the transactional id.

    Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH
    (PRODUCER_FENCED since version 2), INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS.
    """

    transactional_id: TransactionalId = ""
    """The transactional id."""
    producer_id: ProducerId = 0
    """The producer id."""
    producer_epoch: int16 = 0
    """Epoch of the producer."""
    group_id: GroupId = ""
    """Group whose offsets the transaction will commit."""
