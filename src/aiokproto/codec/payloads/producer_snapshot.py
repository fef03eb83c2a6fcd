"""A producer snapshot file: the state of the producers of one partition."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, ProducerId, Struct, field, int16, int32, int64, uint32


class ProducerEntry(Struct):
    producer_id: ProducerId = 0
    epoch: int16 = 0
    last_sequence: int32 = 0
    last_offset: int64 = 0
    offset_delta: int32 = 0
    timestamp: int64 = 0
    coordinator_epoch: int32 = 0
    current_txn_first_offset: int64 = 0


class ProducerSnapshot(Payload, versions="1"):
    crc: uint32 = 0
    producer_entries: list[ProducerEntry] = field(factory=list)
