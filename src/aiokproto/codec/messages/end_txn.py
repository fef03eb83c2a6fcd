"""EndTxn (ApiKey 26): commit or abort a transaction."""

from __future__ import annotations

from aiokproto.codec.schema import ProducerId, Request, Response, Route, TransactionalId, field, int16, int32


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: ProducerId = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)


class EndTxnRequest(Request[EndTxnResponse], key=26, versions="0-5", flexible="3+", route=Route.TRANSACTION):
    transactional_id: TransactionalId = ""
    producer_id: ProducerId = 0
    producer_epoch: int16 = 0
    committed: bool = False
