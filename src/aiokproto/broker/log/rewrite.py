"""Rewrites a stored batch without some of its records, for compaction. It's pure.

Retained records are copied byte by byte unless the base timestamp changes. The batch keeps its offset range, producer
and transaction fields. Consumers skip offsets without a record.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from zlib import crc32

from aiokproto.records import Compression, LegacyBatch, RecordBatch, compress
from aiokproto.records.batch import DELETE_HORIZON, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE
from aiokproto.records.cutting import cut
from aiokproto.records.lz4_v0 import to_v0
from aiokproto.records.patch import update_crc
from aiokproto.records.scan import whole_records
from aiokproto.records.slices import SLICE_BYTES, SLICE_RECORDS
from aiokproto.records.varint import encode, read_varint, read_varlong

_CODEC = 0x07

MAX_REWRITTEN = 16 << 20
"""Maximum decompressed size, in bytes, of the records in a rewritten batch: kilobytes can become gigabytes. Kafka has
no such limit."""

_MAX_SET_BYTES = 2 << 20
"""Maximum size, in bytes, of a message set to rewrite in one step: a message of 34 bytes takes ten times as much
memory."""

_INT32 = struct.Struct(">i")
_LENGTH_AT = 8


def rewrite(
    batch: RecordBatch, keep: bytearray, delete_horizon: int | None = None
) -> Generator[None, None, bytearray | memoryview]:
    """Return the batch with only the records to retain (at least one). Runs in short steps.

    A batch that would retain more than :data:`MAX_REWRITTEN` bytes stays as it is.

    Args:
        batch: The batch.
        keep: For each record, whether to retain it.
        delete_horizon: The earliest time (ms) at which its tombstones or its marker can be removed (KIP-534). None
            leaves the batch's horizon unchanged. Magic 0 and 1 don't have a horizon.
    """
    if isinstance(batch, LegacyBatch):
        return _rewrite_set(batch, keep)
    attributes, base_timestamp, shift = batch.attributes, batch.base_timestamp, 0
    if delete_horizon is not None:
        # KIP-534 stores the horizon in the base timestamp field, so the records' timestamp deltas are shifted to it.
        attributes |= DELETE_HORIZON
        shift = base_timestamp - delete_horizon
        base_timestamp = delete_horizon
    kept = bytearray()
    latest = -1
    stay = iter(keep)
    for piece, records in cut(batch.unpacked(), SLICE_BYTES, SLICE_RECORDS, whole_records, batch.max_record):
        latest = max(latest, _retain(bytes(piece), islice(stay, records), batch.base_timestamp, shift, kept))
        if len(kept) > MAX_REWRITTEN:
            return batch.raw
        yield
    # With LogAppendTime, all records have the header's timestamp, so it doesn't depend on which records remain.
    if attributes & TIMESTAMP_TYPE:
        latest = batch.max_timestamp
    content = bytes(compress(batch.compression, kept) if batch.compression else kept)
    return _join(batch, attributes, base_timestamp, latest, len(keep) - keep.count(0), content)


def _retain(data: bytes, stay: Iterable[int], base_timestamp: int, shift: int, kept: bytearray) -> int:
    """Append the records to retain to ``kept``. Return the greatest of their timestamps, or -1 if there are none."""
    latest = -1
    pos = 0
    for stays in stay:
        length, start = read_varint(data, pos)
        end = start + length
        if stays:
            delta, rest = read_varlong(data, start + 1)
            latest = max(latest, base_timestamp + delta)
            if shift:
                record = data[start : start + 1] + encode(delta + shift) + data[rest:end]
                kept += encode(len(record)) + record
            else:
                kept += data[pos:end]
        pos = end
    return latest


def empty(batch: RecordBatch) -> bytearray:
    """Return the batch without records. It preserves the offset range and the producer's last sequence number."""
    # In an empty batch, there's nothing to decompress or to expire.
    attributes = batch.attributes & ~(_CODEC | DELETE_HORIZON)
    return _join(batch, attributes, batch.max_timestamp, batch.max_timestamp, 0, b"")


def _rewrite_set(batch: LegacyBatch, keep: bytearray) -> bytearray | memoryview:
    """Rewrite a compressed message set. Its inner offsets are either absolute or relative to the offset of the last
    message.

    In both cases, retained messages keep their inner offsets, and the wrapper message gets the offset of the last one.
    """
    positions = batch.records_within(_MAX_SET_BYTES, lambda offset, timestamp, *_: (offset, timestamp))
    if positions is None:
        return batch.raw
    messages = list(_messages(bytes(batch.body())))
    if len(messages) != len(keep):
        # Nested compressed sets, which Kafka 0.8 could read but never wrote, are retained in full.
        return batch.raw
    kept = [(position, message) for stays, position, message in zip(keep, positions, messages, strict=True) if stays]
    (offset, _), _ = kept[-1]
    latest = max(timestamp for (_, timestamp), _ in kept)
    packed = compress(batch.compression, b"".join(message for _, message in kept))
    if batch.compression is Compression.LZ4 and not batch.magic:
        packed = to_v0(packed)
    head = struct.pack(">BBq", 1, batch.attributes, latest) if batch.magic else struct.pack(">BB", 0, batch.attributes)
    content = b"".join((head, _INT32.pack(-1), _INT32.pack(len(packed)), packed))
    return bytearray(struct.pack(">qiI", offset, len(content) + _INT32.size, crc32(content)) + content)


def _messages(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        start = position
        position += LOG_OVERHEAD + _INT32.unpack_from(data, start + _LENGTH_AT)[0]
        yield data[start:position]


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
