"""The unregister broker record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, int64


class UnregisterBrokerRecord(Payload, versions="0", flexible="0+"):
    broker_id: BrokerId = 0
    broker_epoch: int64 = 0
