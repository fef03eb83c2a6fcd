"""ListTransactions (ApiKey 66): list the transactions that a broker coordinates (KIP-664)."""

from __future__ import annotations

from aiokproto.codec.schema import (
    ProducerId,
    Request,
    Response,
    Route,
    Struct,
    TransactionalId,
    field,
    int16,
    int32,
    int64,
    string,
)


class TransactionState(Struct):
    """A transactional id, and the state of its transaction."""

    transactional_id: TransactionalId = ""
    """Id of the transactional producer."""
    producer_id: ProducerId = 0
    """Id that InitProducerId returned to the producer."""
    transaction_state: string = ""
    """State: "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort" or
    "PrepareEpochFence"."""


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    """The transactions of this broker that the caller is allowed to describe. Errors: see `ListTransactionsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[string] = field(factory=list)
    """Names in `state_filters` that aren't states."""
    transaction_states: list[TransactionState] = field(factory=list)


class ListTransactionsRequest(
    Request[ListTransactionsResponse], key=66, versions="0-2", flexible="0+", route=Route.EVERY
):
    """List transactional ids and their states.

    Sent by admin tools to every broker, as each lists only the transactions that it coordinates.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REGULAR_EXPRESSION (version 2+).
    """

    state_filters: list[string] = field(factory=list)
    """States to list; empty: all."""
    producer_id_filters: list[ProducerId] = field(factory=list)
    """Producer ids to list; empty: all."""
    duration_filter: int64 = field("1+", default=-1)
    """List transactions that have been open for longer than this, in ms; negative: all (KIP-994)."""
    transactional_id_pattern: string | None = field("2+", default=None)
    """Regular expression (RE2) that the transactional id must match; null or empty: all (KIP-1152)."""
