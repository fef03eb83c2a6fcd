"""AllocateProducerIds (ApiKey 67): a broker asks for a block of producer ids."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, ProducerId, Request, Response, Route, int16, int32, int64


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: ProducerId = 0
    producer_id_len: int32 = 0


class AllocateProducerIdsRequest(
    Request[AllocateProducerIdsResponse], key=67, versions="0", flexible="0+", route=Route.CONTROLLER
):
    broker_id: BrokerId = 0
    broker_epoch: int64 = -1
