"""A stored batch with some of its records left out: what compaction writes. Pure.

The records that stay are copied as they are; all that was said of the batch's offsets, producer and transaction stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiokproto.records import RecordBatch, compress
from aiokproto.records.batch import DELETE_HORIZON, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE
from aiokproto.records.patch import update_crc
from aiokproto.records.varint import encode, read_varint, read_varlong

_CODEC = 0x07


def rewrite(batch: RecordBatch, keep: Sequence[bool], delete_horizon: int | None = None) -> bytearray:
    """The batch with the records that are to be kept, of which there is at least one.

    Args:
        batch: The batch.
        keep: For each of its records, whether it stays.
        delete_horizon: The time (ms) from which on tombstones, or the marker in it, may go (KIP-534); None leaves what
            the batch says of that.
    """
    attributes, base_timestamp, shift = batch.attributes, batch.base_timestamp, 0
    if delete_horizon is not None:
        # It takes the place of what the timestamps are relative to.
        attributes |= DELETE_HORIZON
        shift = base_timestamp - delete_horizon
        base_timestamp = delete_horizon
    body = bytes(batch.body())
    records: list[bytes] = []
    latest = -1
    pos = 0
    for stays in keep:
        length, start = read_varint(body, pos)
        end = start + length
        if stays:
            delta, rest = read_varlong(body, start + 1)
            latest = max(latest, batch.base_timestamp + delta)
            if shift:
                record = body[start : start + 1] + encode(delta + shift) + body[rest:end]
                records.append(encode(len(record)) + record)
            else:
                records.append(body[pos:end])
        pos = end
    if attributes & TIMESTAMP_TYPE:
        latest = batch.max_timestamp
    content = b"".join(records)
    if batch.compression:
        content = bytes(compress(batch.compression, content))
    return _join(batch, attributes, base_timestamp, latest, len(records), content)


def empty(batch: RecordBatch) -> bytearray:
    """The batch without any record: it keeps its offsets from being lost, and what its producer wrote last."""
    attributes = batch.attributes & ~(_CODEC | DELETE_HORIZON)
    return _join(batch, attributes, batch.max_timestamp, batch.max_timestamp, 0, b"")


def _join(
    batch: RecordBatch, attributes: int, base_timestamp: int, max_timestamp: int, count: int, content: bytes
) -> bytearray:
    data = bytearray(HEADER.size) + content
    HEADER.pack_into(
        data,
        0,
        batch.base_offset,
        len(data) - LOG_OVERHEAD,
        batch.partition_leader_epoch,
        2,
        0,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    update_crc(data)
    return data
