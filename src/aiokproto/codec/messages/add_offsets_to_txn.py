"""AddOffsetsToTxn (ApiKey 25): a group whose offsets a transaction commits."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int16, int32, int64, string


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int32
    error_code: int16


class AddOffsetsToTxnRequest(
    Request[AddOffsetsToTxnResponse], key=25, versions="0-4", flexible="3+", route=Route.TRANSACTION
):
    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    group_id: string
