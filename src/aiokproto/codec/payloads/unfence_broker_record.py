"""The unfence broker record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int32, int64


class UnfenceBrokerRecord(Payload, versions="0", flexible="0+"):
    id: int32 = 0
    epoch: int64 = 0
