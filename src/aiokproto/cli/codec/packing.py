"""Creates record batches from JSON, in the format of :mod:`aiokproto.cli.codec.opened`.

Sizes, counts and checksums are never taken from the JSON, so changing a record gives a valid batch. Missing members
default to their normal values: ``{"records": [{"value": "dg=="}]}`` is a batch.
"""

from __future__ import annotations

from aiokproto.cli.codec.document import document_body
from aiokproto.cli.codec.fields import Fields
from aiokproto.cli.codec.names import InputError
from aiokproto.cli.codec.opened import KNOWN_FLAGS
from aiokproto.cli.codec.packing_legacy import pack_legacy
from aiokproto.errors import CodecError
from aiokproto.records import BatchRecord, Compression, compress
from aiokproto.records.batch import CONTROL, DELETE_HORIZON, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE, TRANSACTIONAL
from aiokproto.records.control import control_type
from aiokproto.records.patch import update_crc
from aiokproto.records.varint import encode as varint
from aiokproto.records.writer import encode_headers
from aiokproto.types import TimestampType

COMPUTED = ("position", "crc", "sizeInBytes", "problem", "raw")
"""Members of a batch's JSON that encoding ignores: they're computed, or used as a whole (``raw``)."""

_BATCH = (
    *COMPUTED,
    "baseOffset",
    "lastOffset",
    "partitionLeaderEpoch",
    "magic",
    "compression",
    "timestampType",
    "isTransactional",
    "isControl",
    "hasDeleteHorizon",
    "unknownAttributes",
    "baseTimestamp",
    "maxTimestamp",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "records",
)
_RECORD = ("offset", "timestamp", "producerTimestamp", "controlType", "key", "value", "headers", "problem")
_CODECS = {codec.name.lower(): codec.value for codec in Compression}
_TIMESTAMP_TYPES = {TimestampType.CREATE_TIME.name: 0, TimestampType.LOG_APPEND_TIME.name: TIMESTAMP_TYPE}
_FLAGS = {"isTransactional": TRANSACTIONAL, "isControl": CONTROL, "hasDeleteHorizon": DELETE_HORIZON}


def pack_batch(data: object, path: str) -> bytes:
    """Encode one batch from parsed JSON. ``path`` is its position in the document, for errors.

    Raises:
        DecodeError: A JSON member is unknown or has an invalid value. The message names it.
        UnsupportedCompressionError: The codec's library isn't installed.
    """
    magic = Fields(data, path).number("magic", 8, 2)
    if magic in (0, 1):
        return pack_legacy(data, path, magic, COMPUTED, record_content)
    batch = Fields(data, path, _BATCH)
    if magic != 2:
        raise batch.bad("magic", f"{magic} is unknown")
    return _pack(batch)


def _pack(batch: Fields) -> bytes:
    attributes = _attributes(batch)
    rows = [Fields(row, f"{batch.path}.records[{i}]", _RECORD) for i, row in enumerate(batch.array("records"))]
    base_offset = batch.number("baseOffset", 64, rows[0].number("offset", 64, 0) if rows else 0)
    records = [_record(row, base_offset + index, attributes) for index, row in enumerate(rows)]
    base_timestamp = batch.number("baseTimestamp", 64, records[0].timestamp if records else -1)
    # The last offset can be beyond the last record after compaction. Records added to the JSON can be beyond the last
    # offset.
    last = max(batch.number("lastOffset", 64, base_offset), *(record.offset for record in records), base_offset)
    if last - base_offset >= 1 << 31:
        raise batch.bad("lastOffset", f"{last} is too far from the batch's {base_offset}")
    body = b"".join(
        _record_bytes(record, base_offset, base_timestamp, row) for row, record in zip(rows, records, strict=True)
    )
    # A batch emptied by compaction keeps its codec, but has no body to compress.
    packed = compress(Compression(attributes & 7), body) if records else body
    out = bytearray(HEADER.size) + packed
    HEADER.pack_into(
        out,
        0,
        base_offset,
        len(out) - LOG_OVERHEAD,
        batch.number("partitionLeaderEpoch", 32, -1),
        2,
        0,
        attributes,
        last - base_offset,
        base_timestamp,
        batch.number("maxTimestamp", 64, max((record.timestamp for record in records), default=-1)),
        batch.number("producerId", 64, -1),
        batch.number("producerEpoch", 16, -1),
        batch.number("baseSequence", 32, -1),
        len(records),
    )
    update_crc(out)
    return bytes(out)


def _attributes(batch: Fields) -> int:
    unknown = batch.number("unknownAttributes", 16, 0)
    if unknown & KNOWN_FLAGS:
        raise batch.bad("unknownAttributes", f"{unknown:#x} includes bits of named attributes")
    named = sum(bit for name, bit in _FLAGS.items() if batch.flag(name))
    codec = batch.choice("compression", _CODECS, "none")
    return unknown | named | codec | batch.choice("timestampType", _TIMESTAMP_TYPES, TimestampType.CREATE_TIME.name)


def _record(row: Fields, offset: int, attributes: int) -> BatchRecord:
    time = "producerTimestamp" if attributes & TIMESTAMP_TYPE and "producerTimestamp" in row else "timestamp"
    headers = []
    for index, header in enumerate(row.array("headers")):
        fields = Fields(header, f"{row.path}.headers[{index}]", ("key", "value"))
        headers.append((fields.text("key"), fields.data("value")))
    key = record_content(row, "key")
    if "controlType" in row and (given := row.get("controlType")) != (actual := control_type(key).name):
        raise row.bad("controlType", f"{given!r}, but the key has {actual}")
    return BatchRecord(
        row.number("offset", 64, offset), row.number(time, 64, -1), key, record_content(row, "value"), tuple(headers)
    )


def record_content(row: Fields, name: str) -> bytes | None:
    """Return the bytes of a key or value: null, base64, or the document of a payload."""
    document = row.get(name)
    if not isinstance(document, dict):
        return row.data(name)
    if "payload" not in document:
        raise row.bad(name, "expected the document of a payload")
    try:
        return document_body(document).data
    except (InputError, CodecError) as error:
        raise row.bad(name, str(error)) from None


def _record_bytes(record: BatchRecord, base_offset: int, base_timestamp: int, row: Fields) -> bytes:
    delta, offset = record.timestamp - base_timestamp, record.offset - base_offset
    if not -(1 << 63) <= delta < 1 << 63:
        raise row.bad("timestamp", f"{record.timestamp} is too far from the batch's {base_timestamp}")
    if not -(1 << 31) <= offset < 1 << 31:
        raise row.bad("offset", f"{record.offset} is too far from the batch's {base_offset}")
    content = b"".join(
        (
            b"\0",
            varint(delta),
            varint(offset),
            _sized(record.key),
            _sized(record.value),
            encode_headers(record.headers),
        )
    )
    return varint(len(content)) + content


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
