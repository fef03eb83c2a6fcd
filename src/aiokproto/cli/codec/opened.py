"""Record batches as JSON: header and records, by name."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from aiokproto.cli.codec.contents import contents
from aiokproto.codec.json import json_name
from aiokproto.errors import CodecError
from aiokproto.records import BatchRecord, RecordBatch
from aiokproto.records.batch import CONTROL, DELETE_HORIZON, TIMESTAMP_TYPE, TRANSACTIONAL
from aiokproto.records.control import control_type
from aiokproto.records.record import read_records
from aiokproto.types import TimestampType

COMPRESSION = 0x07
KNOWN_FLAGS = COMPRESSION | TIMESTAMP_TYPE | TRANSACTIONAL | CONTROL | DELETE_HORIZON
KNOWN_LEGACY_FLAGS = COMPRESSION | TIMESTAMP_TYPE


def batch_json(batch: RecordBatch, form: str) -> dict[str, Any]:
    """Return a batch of any magic as JSON, its records opened in ``form``. Fields that the magic lacks are left out.

    Raises:
        KafkaError: The records are damaged, or cannot be decompressed here.
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


def _as_stored(batch: RecordBatch) -> list[BatchRecord]:
    """Return the records with their stored timestamps, which LogAppendTime overrides for consumers."""
    body = bytes(batch.body())
    try:
        return read_records(body, batch.count, batch.base_offset, batch.base_timestamp, None, BatchRecord)
    except CodecError:
        # Iterating raises the error that names the batch.
        return list(batch)


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
    for record in batch:
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
