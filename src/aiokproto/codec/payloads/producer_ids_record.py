"""The producer ids record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, ProducerId, int64


class ProducerIdsRecord(Payload, versions="0", flexible="0+"):
    broker_id: BrokerId = 0
    broker_epoch: int64 = -1
    next_producer_id: ProducerId = 0
