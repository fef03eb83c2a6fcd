"""ListTransactions (ApiKey 66): the transactions that a broker coordinates."""

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
    transactional_id: TransactionalId = ""
    producer_id: ProducerId = 0
    transaction_state: string = ""


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[string] = field(factory=list)
    transaction_states: list[TransactionState] = field(factory=list)


class ListTransactionsRequest(
    Request[ListTransactionsResponse], key=66, versions="0-2", flexible="0+", route=Route.EVERY
):
    state_filters: list[string] = field(factory=list)
    producer_id_filters: list[ProducerId] = field(factory=list)
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: string | None = field("2+", default=None)
