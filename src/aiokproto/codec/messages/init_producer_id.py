"""InitProducerId (ApiKey 22): a producer id and epoch, fencing older users of the transactional id."""

from __future__ import annotations

from aiokproto.codec.schema import ProducerId, Request, Response, Route, TransactionalId, field, int16, int32


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: ProducerId = -1
    producer_epoch: int16 = field(default=0, refused=-1)
    ongoing_txn_producer_id: ProducerId = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)


class InitProducerIdRequest(
    Request[InitProducerIdResponse], key=22, versions="0-6", flexible="2+", unstable="6", route=Route.TRANSACTION
):
    transactional_id: TransactionalId | None = ""
    transaction_timeout_ms: int32 = 0
    producer_id: ProducerId = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable2_pc: bool = field("6+", default=False)
    keep_prepared_txn: bool = field("6+", default=False)
