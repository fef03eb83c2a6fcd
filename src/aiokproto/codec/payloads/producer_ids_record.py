"""The producer ids record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int32, int64


class ProducerIdsRecord(Payload, versions="0", flexible="0+"):
    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    next_producer_id: int64
