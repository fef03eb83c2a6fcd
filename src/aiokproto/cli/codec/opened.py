"""Record sets opened into batches and records, for reading."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from aiokproto import records
from aiokproto.codec.json import records_as_base64
from aiokproto.codec.schema import Buffer
from aiokproto.records.control import control_type


def records_opened(name: str, data: Buffer) -> tuple[str, Any]:
    """Every batch with its header and records. What :func:`~aiokproto.codec.json.to_json` takes as ``records``."""
    if name.startswith("unaligned"):
        # A piece of a snapshot, cut anywhere: its first bytes need not begin a batch.
        return records_as_base64(name, data)
    return name, [_batch(batch) for batch in records.decode(data)]


def _batch(batch: records.RecordBatch) -> dict[str, Any]:
    told = {_camel(name): getattr(batch, name) for name in _HEADER}
    told["compression"] = batch.compression.name.lower()
    told["timestampType"] = batch.timestamp_type.name
    told["isTransactional"] = batch.is_transactional
    told["isControl"] = batch.is_control
    told["sizeInBytes"] = batch.size_in_bytes
    told["records"] = [_record(record, batch.is_control) for record in batch]
    return told


_HEADER = (
    "base_offset",
    "last_offset",
    "partition_leader_epoch",
    "magic",
    "crc",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)


def _record(record: records.BatchRecord, is_control: bool) -> dict[str, Any]:
    told = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [{"key": key, "value": _base64(value)} for key, value in record.headers],
    }
    if is_control:
        told["controlType"] = control_type(record.key).name
    return told


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
