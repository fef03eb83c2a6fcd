"""An entry of a transaction index file."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, ProducerId, int64


class AbortedTxn(Payload, versions="0"):
    producer_id: ProducerId = 0
    first_offset: int64 = 0
    last_offset: int64 = 0
    last_stable_offset: int64 = 0
