"""Converts record batches to JSON, with named header fields and records."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from aiokproto.cli.codec.contents import contents
from aiokproto.codec.json import json_name
from aiokproto.records import BatchRecord, RecordBatch
from aiokproto.records.batch import CONTROL, DELETE_HORIZON, TIMESTAMP_TYPE, TRANSACTIONAL
from aiokproto.records.control import control_type
from aiokproto.types import TimestampType

COMPRESSION = 0x07
KNOWN_FLAGS = COMPRESSION | TIMESTAMP_TYPE | TRANSACTIONAL | CONTROL | DELETE_HORIZON
KNOWN_LEGACY_FLAGS = COMPRESSION | TIMESTAMP_TYPE

MAX_MEMORY = 48 << 20
"""Maximum memory that a batch's records may take as JSON, in bytes. A few kilobytes can contain millions of records."""

_RECORD_MEMORY, _HEADER_MEMORY, _BYTE_MEMORY = 1024, 512, 4
"""Roughly how many bytes of memory a record, a header, and a byte of content take."""

_FLAGS_AT = 22


def batch_json(batch: RecordBatch, form: str) -> dict[str, Any]:
    """Return a batch of any magic as JSON, with its records opened in ``form``. Fields that the magic doesn't have are
    left out.

    Raises:
        KafkaError: The records are damaged, or can't be decompressed here.
    """
    if batch.magic < 2:
        return _legacy(batch, form)
    unknown = batch.attributes & ~KNOWN_FLAGS
    return {
        "position": batch.position,
        **_members(batch, "base_offset", "last_offset", "partition_leader_epoch", "magic", "crc"),
        "compression": batch.compression.name.lower(),
        "timestampType": batch.timestamp_type.name,
        **_members(batch, "is_transactional", "is_control"),
        **({"hasDeleteHorizon": True} if batch.has_delete_horizon else {}),
        **({"unknownAttributes": unknown} if unknown else {}),
        **_members(batch, "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"),
        **_members(batch, "size_in_bytes"),
        "records": [_record(record, batch, form) for record in _as_stored(batch)],
    }


def _as_stored(batch: RecordBatch) -> Iterator[BatchRecord]:
    """Yield the records with their stored timestamps, which consumers don't see if LogAppendTime is set."""
    if not batch.attributes & TIMESTAMP_TYPE:
        return _within(batch)
    stored = bytearray(batch.raw)
    stored[_FLAGS_AT] &= ~TIMESTAMP_TYPE
    return _within(RecordBatch(stored, max_decompressed=batch.max_decompressed, max_record=batch.max_record))


def _within(batch: RecordBatch) -> Iterator[BatchRecord]:
    """Yield the records, as long as they fit into the memory limit.

    Raises:
        CorruptRecordError: The records don't fit.
    """
    room = MAX_MEMORY
    for record in batch:
        content = len(record.key or b"") + len(record.value or b"")
        room -= _RECORD_MEMORY + _HEADER_MEMORY * len(record.headers) + _BYTE_MEMORY * content
        if room < 0:
            raise batch.damage(f"its records are not shown: they take more than {MAX_MEMORY} bytes of memory as JSON")
        yield record


def _record(record: BatchRecord, batch: RecordBatch, form: str) -> dict[str, Any]:
    key, value, problem = contents(record, form, batch.is_control)
    row: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        row |= {"timestamp": batch.max_timestamp, "producerTimestamp": record.timestamp}
    if batch.is_control and not problem:
        row["controlType"] = control_type(record.key).name
    row |= {"key": key, "value": value}
    row["headers"] = [
        {"key": name, "value": None if data is None else b64encode(data).decode()} for name, data in record.headers
    ]
    return row | ({"problem": problem} if problem else {})


def _legacy(batch: RecordBatch, form: str) -> dict[str, Any]:
    unknown = batch.attributes & ~KNOWN_LEGACY_FLAGS
    times: dict[str, Any] = {"timestampType": batch.timestamp_type.name} if batch.magic else {}
    if batch.magic and batch.compression:
        times["maxTimestamp"] = batch.max_timestamp
    records = []
    for record in _within(batch):
        key, value, problem = contents(record, form, False)
        time = {"timestamp": record.timestamp} if batch.magic else {}
        row = {"offset": record.offset, **time, "key": key, "value": value}
        records.append(row | ({"problem": problem} if problem else {}))
    return {
        "position": batch.position,
        **_members(batch, "base_offset", "last_offset", "magic", "crc"),
        "compression": batch.compression.name.lower(),
        **times,
        **({"unknownAttributes": unknown} if unknown else {}),
        **_members(batch, "size_in_bytes"),
        "records": records,
    }


def _members(batch: RecordBatch, *names: str) -> dict[str, Any]:
    return {json_name(name): getattr(batch, name) for name in names}
