"""Record sets as JSON and back.

A list of batches. Where header and records cannot say all the bytes of a batch, they are there as ``raw`` as well, and
taken as long as nothing else was changed; bytes that are no batch are there as ``raw`` alone, with a ``problem``.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from aiokproto import records
from aiokproto.cli.codec.contents import PLAIN
from aiokproto.cli.codec.fields import Fields
from aiokproto.cli.codec.opened import batch_json
from aiokproto.cli.codec.packing import TOLD, pack_batch
from aiokproto.codec.json import RecordsForm, brief, records_as_base64
from aiokproto.codec.schema import Buffer
from aiokproto.errors import CorruptRecordError, DecodeError, KafkaError
from aiokproto.records import RecordBatch


def records_opened(form: str = PLAIN) -> RecordsForm:
    """What :func:`~aiokproto.codec.json.to_json` takes to show every batch with its header and records."""

    def opened(name: str, data: Buffer) -> tuple[str, Any]:
        if name.startswith("unaligned"):
            # A piece of a snapshot, cut anywhere: its first bytes need not begin a batch.
            return records_as_base64(name, data)
        return name, list(open_batches(data, form))

    return opened


def open_batches(data: Buffer, form: str) -> Iterator[dict[str, Any]]:
    """The batches of a record set or segment; what is damaged, or cut short, with its problem."""
    view, pos = memoryview(data), 0
    while pos < len(view):
        try:
            size = records.first_batch_size(view[pos:])
        except CorruptRecordError as error:
            # Where the next batch would begin is not known.
            yield _problem(view[pos:], pos, str(error))
            return
        if size is None or pos + size > len(view):
            left = len(view) - pos
            told = f"{left} bytes are no room for its size" if size is None else f"{left} of its {size} bytes are there"
            yield _problem(view[pos:], pos, f"the last batch is cut short: {told}")
            return
        yield _entry(view[pos : pos + size], pos, form)
        pos += size


def problems(entry: dict[str, Any]) -> Iterator[str]:
    """What could not be read in a batch, with where it is."""
    if "problem" in entry:
        yield f"position {entry['position']}: {entry['problem']}"
    for record in entry.get("records", ()):
        if "problem" in record:
            yield f"position {entry['position']}, offset {record['offset']}: {record['problem']}"


def pack_batches(data: object) -> bytes:
    """A record set from the list of its batches.

    Raises:
        DecodeError: Something is unknown or does not fit; names it by its path.
        UnsupportedCompressionError: A codec's library is not installed.
    """
    if not isinstance(data, list):
        raise DecodeError(f": base64 or an array of batches is needed, not {brief(data)}")
    return b"".join(pack_entry(entry, f"[{index}]") for index, entry in enumerate(data))


def pack_entry(data: object, path: str = "") -> bytes:
    """One of the list. Raises as :func:`pack_batches`."""
    entry = Fields(data, path)
    raw = entry.data("raw")
    if "records" not in entry:
        if raw is None:
            raise entry.bad("records", "missing")
        Fields(data, path, TOLD)
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
        (batch,) = records.decode(data)
        batch.position = pos
        told = batch_json(batch, form)
        if not _alike(records.decode(pack_batch(told, "")), batch):
            told["raw"] = b64encode(data).decode()
    except KafkaError as error:
        return _problem(data, pos, str(error))
    return told


def _alike(again: Iterator[RecordBatch], batch: RecordBatch) -> bool:
    """Whether a batch came out as it was; if it is compressed, but for how well."""
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
