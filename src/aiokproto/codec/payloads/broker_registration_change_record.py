"""The broker registration change record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, field, int8, int64, uuid


class BrokerRegistrationChangeRecord(Payload, versions="0-3", flexible="0+"):
    broker_id: BrokerId = 0
    broker_epoch: int64 = 0
    fenced: int8 = field(tag=0, default=0)
    in_controlled_shutdown: int8 = field("1+", tag=1, default=0)
    log_dirs: list[uuid] = field("2+", tag=2, factory=list)
    cordoned_log_dirs: list[uuid] | None = field("3+", tag=3, default=None)
