"""Converts record sets to JSON and back.

A record set is a list of batches. If the header and records don't determine all bytes of a batch, the batch also
contains its bytes as ``raw``. Encoding uses ``raw`` unless something else was changed. Bytes that aren't a batch are
shown as just ``raw`` and a ``problem``.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from aiokproto import records
from aiokproto.cli.codec.contents import PLAIN
from aiokproto.cli.codec.fields import Fields
from aiokproto.cli.codec.opened import batch_json
from aiokproto.cli.codec.packing import COMPUTED, pack_batch
from aiokproto.codec.json import RecordsForm, brief, records_as_base64
from aiokproto.codec.schema import Buffer
from aiokproto.errors import CorruptRecordError, DecodeError, KafkaError
from aiokproto.records import RecordBatch


def records_opened(form: str = PLAIN) -> RecordsForm:
    """Return the argument of :func:`~aiokproto.codec.json.to_json` that shows each batch with its records."""

    def opened(name: str, data: Buffer) -> tuple[str, Any]:
        if name.startswith("unaligned"):
            # A snapshot's chunk can start in the middle of a batch.
            return records_as_base64(name, data)
        return name, list(open_batches(data, form))

    return opened


MAX_OPENED = 32 << 20
"""Maximum decompressed size of a batch. Larger batches are shown as bytes, with a problem."""

MAX_RECORD_BYTES = 4 << 20
"""Maximum size of a record, in bytes. As JSON, a record takes several times as much."""


def open_batches(data: Buffer, form: str) -> Iterator[dict[str, Any]]:
    """Yield the batches of a record set or segment. Damaged and incomplete batches have a problem."""
    view, pos = memoryview(data), 0
    while pos < len(view):
        try:
            size = records.first_batch_size(view[pos:])
        except CorruptRecordError as error:
            # The position of the next batch is unknown.
            yield _problem(view[pos:], pos, str(error))
            return
        if size is None or pos + size > len(view):
            left = len(view) - pos
            detail = (
                f"{left} bytes are too few for its size" if size is None else f"{left} of its {size} bytes are there"
            )
            yield _problem(view[pos:], pos, f"the last batch is cut short: {detail}")
            return
        yield _entry(view[pos : pos + size], pos, form)
        pos += size


def problems(entry: dict[str, Any]) -> Iterator[str]:
    """Yield the problems of a batch, with their positions."""
    if "problem" in entry:
        yield f"position {entry['position']}: {entry['problem']}"
    for record in entry.get("records", ()):
        if "problem" in record:
            yield f"position {entry['position']}, offset {record['offset']}: {record['problem']}"


def pack_batches(data: object) -> bytes:
    """Encode a record set from the list of its batches.

    Raises:
        DecodeError: A member is unknown or doesn't fit. The message contains its path.
        UnsupportedCompressionError: A codec's library isn't installed.
    """
    if not isinstance(data, list):
        raise DecodeError(f": expected base64 or an array of batches, got {brief(data)}")
    return b"".join(pack_entry(entry, f"[{index}]") for index, entry in enumerate(data))


def pack_entry(data: object, path: str = "") -> bytes:
    """Encode one batch of the list. Raises the same errors as :func:`pack_batches`."""
    entry = Fields(data, path)
    raw = entry.data("raw")
    if "records" not in entry:
        if raw is None:
            raise entry.bad("records", "missing")
        Fields(data, path, COMPUTED)
        return raw
    packed = pack_batch(data, path)
    return raw if raw is not None and packed == _packed_again(raw) else packed


def _problem(data: memoryview, pos: int, problem: str) -> dict[str, Any]:
    return {
        "position": pos,
        "sizeInBytes": len(data),
        "problem": problem,
        "raw": b64encode(data).decode(),
    }


def _entry(data: memoryview, pos: int, form: str) -> dict[str, Any]:
    try:
        (batch,) = records.decode(data, max_decompressed=MAX_OPENED, max_record=MAX_RECORD_BYTES)
        batch.position = pos
        row = batch_json(batch, form)
        if not _alike(records.decode(pack_batch(row, "")), batch):
            row["raw"] = b64encode(data).decode()
    except KafkaError as error:
        return _problem(data, pos, str(error))
    return row


def _alike(again: Iterator[RecordBatch], batch: RecordBatch) -> bool:
    """Return whether a batch survived the round trip. Compressed bytes may differ."""
    (made,) = again
    if not batch.compression:
        return made.raw == batch.raw
    return made.body() == batch.body()


def _packed_again(raw: bytes) -> bytes | None:
    try:
        (batch,) = records.decode(raw)
        return pack_batch(batch_json(batch, PLAIN), "")
    except (KafkaError, ValueError):
        return None
