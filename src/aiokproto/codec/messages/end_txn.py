"""EndTxn (ApiKey 26): commit or abort a transaction."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16, int32, int64, string


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int32
    error_code: int16
    producer_id: int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)


class EndTxnRequest(Request[EndTxnResponse], key=26, versions="0-5", flexible="3+", route=Route.TRANSACTION):
    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    committed: bool
