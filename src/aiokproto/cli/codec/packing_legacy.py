"""Creates messages of magic 0 and 1 from JSON."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct as Packer

from aiokproto.cli.codec.fields import Fields
from aiokproto.cli.codec.opened import KNOWN_LEGACY_FLAGS
from aiokproto.records import Compression, compress
from aiokproto.records.batch import TIMESTAMP_TYPE
from aiokproto.records.lz4_v0 import to_v0
from aiokproto.types import TimestampType

_BATCH = (
    "baseOffset",
    "lastOffset",
    "magic",
    "compression",
    "timestampType",
    "unknownAttributes",
    "maxTimestamp",
    "records",
)
_RECORD = ("offset", "timestamp", "key", "value", "problem")
_CODECS = {codec.name.lower(): codec.value for codec in Compression if codec is not Compression.ZSTD}
_TIMESTAMP_TYPES = {TimestampType.CREATE_TIME.name: 0, TimestampType.LOG_APPEND_TIME.name: TIMESTAMP_TYPE}
_ENTRY = Packer(">qiI")
_HEAD = Packer(">BB")
_INT32 = Packer(">i")
_INT64 = Packer(">q")


def pack_legacy(
    data: object, path: str, magic: int, computed: tuple[str, ...], content: Callable[[Fields, str], bytes | None]
) -> bytes:
    """Encode a message, or a compressed set of messages. Raises the same errors as ``pack_batch``."""
    batch = Fields(data, path, (*computed, *_BATCH))
    attributes = batch.number("unknownAttributes", 9, 0) | batch.choice("compression", _CODECS, "none")
    if attributes & KNOWN_LEGACY_FLAGS != batch.choice("compression", _CODECS, "none") or attributes < 0:
        raise batch.bad("unknownAttributes", "includes bits of named attributes")
    stamp = batch.choice("timestampType", _TIMESTAMP_TYPES, TimestampType.CREATE_TIME.name) if magic else 0
    codec = Compression(attributes & 7)
    rows = [Fields(row, f"{batch.path}.records[{i}]", _RECORD) for i, row in enumerate(batch.array("records"))]
    if not rows or (len(rows) > 1 and not codec):
        raise batch.bad("records", f"{len(rows)} records, but an uncompressed message has exactly one")
    first = batch.number("baseOffset", 64, rows[0].number("offset", 64, 0))
    offsets = [row.number("offset", 64, first + index) for index, row in enumerate(rows)]
    times = [row.number("timestamp", 64, -1) for row in rows]
    if not codec:
        return _message(
            offsets[0], magic, attributes | stamp, times[0], content(rows[0], "key"), content(rows[0], "value")
        )
    # Since magic 1, offsets in a compressed set are relative.
    start = offsets[0] if magic else 0
    inside = b"".join(
        _message(offset - start, magic, stamp, time, content(row, "key"), content(row, "value"))
        for row, offset, time in zip(rows, offsets, times, strict=True)
    )
    packed = bytes(compress(codec, inside))
    if codec is Compression.LZ4 and not magic:
        packed = bytes(to_v0(packed))
    last = batch.number("lastOffset", 64, offsets[-1])
    return _message(last, magic, attributes | stamp, batch.number("maxTimestamp", 64, max(times)), None, packed)


def _message(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    head = _HEAD.pack(magic, attributes) + (_INT64.pack(timestamp) if magic else b"")
    message = head + _sized(key) + _sized(value)
    return _ENTRY.pack(offset, len(message) + _INT32.size, zlib.crc32(message)) + message


def _sized(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data
