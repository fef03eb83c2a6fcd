"""A stored batch with some of its records left out: what compaction writes. Pure.

The records that stay are copied as they are; all that was said of the batch's offsets, producer and transaction stays.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from zlib import crc32

from aiokproto.records import Compression, LegacyBatch, RecordBatch, compress
from aiokproto.records.batch import DELETE_HORIZON, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE
from aiokproto.records.lz4_v0 import to_v0
from aiokproto.records.patch import update_crc
from aiokproto.records.varint import encode, read_varint, read_varlong

_CODEC = 0x07

_INT32 = struct.Struct(">i")
_LENGTH_AT = 8


def rewrite(batch: RecordBatch, keep: Sequence[bool], delete_horizon: int | None = None) -> bytearray | memoryview:
    """The batch with the records that are to be kept, of which there is at least one.

    Args:
        batch: The batch.
        keep: For each of its records, whether it stays.
        delete_horizon: The time (ms) from which on tombstones, or the marker in it, may go (KIP-534); None leaves what
            the batch says of that, as it must in magic 0 and 1.
    """
    if isinstance(batch, LegacyBatch):
        return _rewrite_set(batch, keep)
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


def _rewrite_set(batch: LegacyBatch, keep: Sequence[bool]) -> bytearray | memoryview:
    """A compressed message set. The messages in it are numbered absolutely, or relative to the offset of the last.

    Either way those that stay keep their numbers, and the message around them gets the offset of the last.
    """
    messages = list(_messages(bytes(batch.body())))
    if len(messages) != len(keep):
        # Sets within sets, which Kafka 0.8 read but did not write: they stay whole.
        return batch.raw
    places = batch.records(lambda offset, timestamp, *_: (offset, timestamp))
    kept = [(place, message) for stays, place, message in zip(keep, places, messages, strict=True) if stays]
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
        begin = position
        position += LOG_OVERHEAD + _INT32.unpack_from(data, begin + _LENGTH_AT)[0]
        yield data[begin:position]


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
