"""A producer snapshot file: the state of the producers of one partition."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int16, int32, int64, uint32


class ProducerEntry(Struct):
    producer_id: int64
    epoch: int16
    last_sequence: int32
    last_offset: int64
    offset_delta: int32
    timestamp: int64
    coordinator_epoch: int32
    current_txn_first_offset: int64


class ProducerSnapshot(Payload, versions="1"):
    crc: uint32
    producer_entries: list[ProducerEntry]
