"""AddOffsetsToTxn (ApiKey 25): a group whose offsets a transaction commits."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, ProducerId, Request, Response, Route, TransactionalId, int16, int32


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0


class AddOffsetsToTxnRequest(
    Request[AddOffsetsToTxnResponse], key=25, versions="0-4", flexible="3+", route=Route.TRANSACTION
):
    transactional_id: TransactionalId = ""
    producer_id: ProducerId = 0
    producer_epoch: int16 = 0
    group_id: GroupId = ""
