"""Record sets as JSON and back: the verb `records`, and `decode --records`."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto import records
from aiokproto.cli.codec.contents import FORMS
from aiokproto.cli.codec.record_sets import open_batches, pack_batches
from aiokproto.errors import KafkaError
from aiokproto.records import BatchRecord, Compression, patch
from aiokproto.records.batch import HEADER
from aiokproto.records.control import encode_end_transaction
from aiokproto.types import TimestampType
from tests.codec.tool.conftest import Run
from tests.records.legacy_sets import message, wrapped
from tests.records.strategies import batches, record_lists

NOW = 1_700_000_000_000
HEADERS = (("h", b"1"), ("h", None), ("", b""))
RECORDS = [
    BatchRecord(0, NOW, b"k", None, HEADERS),
    BatchRecord(1, NOW - 5, None, b""),
    BatchRecord(2, -1, b"", b"v"),
]
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}


def through_json(data: bytes, form: str = "plain") -> tuple[list[Any], bytes]:
    """Return what the JSON has, and what it becomes again."""
    batches = json.loads(json.dumps(list(open_batches(data, form))))
    return batches, pack_batches(batches)


def patched(change: Callable[[bytearray], None]) -> bytes:
    batch = bytearray(records.encode(RECORDS, base_offset=100, **PRODUCER))
    change(batch)
    return bytes(batch)


def set_attributes(bits: int) -> Callable[[bytearray], None]:
    def change(batch: bytearray) -> None:
        struct.pack_into(">h", batch, 21, bits)
        patch.update_crc(batch)

    return change


def leave_one_record(batch: bytearray) -> None:
    """Compaction does this: the last of three is left, and the offsets stay."""
    body = bytes(records.encode([RECORDS[2]])[HEADER.size :])
    record = body[:3] + b"\x04" + body[4:]
    del batch[HEADER.size :]
    batch += record
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, 1)
    patch.update_crc(batch)


def batch_of(body: bytes, *, count: int = 1, attributes: int = 0) -> bytes:
    """Return records in a batch, unchanged."""
    size = HEADER.size - 12 + len(body)
    batch = bytearray(HEADER.pack(3, size, -1, 2, 0, attributes, 4, NOW, NOW, -1, -1, -1, count) + body)
    patch.update_crc(batch)
    return bytes(batch)


STORED: dict[str, bytes] = {
    "plain": records.encode(RECORDS),
    "offsets": records.encode(RECORDS, base_offset=1 << 40),
    "idempotent": records.encode(RECORDS, **PRODUCER),
    "transactional": records.encode(RECORDS, is_transactional=True, **PRODUCER),
    "marker": bytes(
        encode_end_transaction(
            committed=False, producer_id=7, producer_epoch=3, coordinator_epoch=5, timestamp=NOW, base_offset=9
        )
    ),
    "leader epoch": patched(lambda batch: patch.set_leader_epoch(batch, 0, 12)),
    "append time": patched(lambda batch: patch.restamp(batch, 0, NOW + 99)),
    "create time": patched(lambda batch: patch.restamp(batch, 0, NOW + 99, TimestampType.CREATE_TIME)),
    "delete horizon": patched(set_attributes(0x40)),
    "unknown flags": patched(set_attributes(0x7F80 - 0x8000)),
    "compacted": patched(leave_one_record),
    "emptied": batch_of(b"", count=0, attributes=1),
    "legacy 0": message(b"v", offset=5, magic=0, key=b"k") + message(None, offset=6, magic=0),
    "legacy 1": message(b"v", offset=5, key=b"k", timestamp=NOW) + message(None, offset=6, timestamp=-7),
    "legacy flags": message(b"v", attributes=0xF0) + message(b"v", magic=0, attributes=0x08),
    "legacy append time": message(b"v", attributes=0x08),
    "mixed": message(b"v", magic=0) + message(b"v") + records.encode(RECORDS),
    "nothing": b"",
}


@pytest.mark.parametrize("name", STORED)
def test_uncompressed_batches_round_trip_byte_for_byte(name: str) -> None:
    batches, again = through_json(STORED[name])
    assert again == STORED[name]
    assert not [batch for batch in batches if "problem" in batch]


@given(st.lists(batches(), max_size=3).map(b"".join))
@settings(deadline=None)
def test_any_batches_come_back(data: bytes) -> None:
    """Our sets are equal even if they are compressed, because the same libraries compress them again."""
    batches, again = through_json(data)
    assert again == data
    assert not [batch for batch in batches if "raw" in batch]


@given(listed=record_lists(), codec=st.sampled_from(["gzip", "snappy", "lz4", "zstd"]))
@settings(deadline=None)
def test_batches_compressed_by_another_library_round_trip_with_equal_content(
    listed: tuple[int, list[BatchRecord]], codec: str
) -> None:
    base, rows = listed
    data = records.encode(rows, base_offset=base, compression=codec, level=None if codec == "snappy" else 9)
    _, again = through_json(data)
    (batch,), (was,) = records.decode(again), records.decode(data)
    assert batch.compression is was.compression
    assert batch.body() == was.body()
    assert list(batch) == list(was)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_message_sets_come_back(magic: int, codec: str) -> None:
    data = records.encode(
        [BatchRecord(0, NOW, b"k", b"v"), BatchRecord(1, NOW, None, None)],
        magic=magic,
        compression=codec,
        base_offset=7,
    )
    batches, again = through_json(data)
    assert again == data
    assert "raw" not in batches[0]
    assert [record["offset"] for record in batches[0]["records"]] == [7, 8]


ODD: dict[str, bytes] = {
    "a record's length in more bytes than it needs": b"\x8c\x00\x00\x00\x00\x01\x01\x00",
    "attributes of a record": b"\x0c\x05\x00\x00\x01\x01\x00",
    "a header that is not UTF-8": b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01",
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
def test_data_that_json_cannot_express_is_kept_until_it_is_changed(body: bytes) -> None:
    data = batch_of(body)
    batches, again = through_json(data)
    assert again == data
    assert b64decode(batches[0]["raw"]) == data
    batches[0]["records"][0]["value"] = b64encode(b"new").decode()
    (batch,) = records.decode(pack_batches(batches))
    assert [record.value for record in batch] == [b"new"]


@pytest.mark.parametrize("compression", list(Compression))
def test_a_changed_record_makes_a_valid_batch(compression: Compression) -> None:
    data = records.encode(RECORDS, base_offset=5, compression=compression, **PRODUCER)
    batches, _ = through_json(data)
    batches[0]["records"][1]["value"] = b64encode(b"a longer value").decode()
    batches[0]["records"].append({"value": "dg==", "timestamp": NOW})
    (batch,) = records.decode(pack_batches(batches))
    assert [record.value for record in batch] == [None, b"a longer value", b"v", b"v"]
    assert [record.offset for record in batch] == [5, 6, 7, 8]
    assert (batch.last_offset, batch.producer_id, batch.base_sequence) == (8, 7, 11)


def test_a_batch_can_be_written_by_hand() -> None:
    (batch,) = records.decode(pack_batches([{"records": [{"value": "dg==", "timestamp": 5}, {"key": "aw=="}]}]))
    assert list(batch) == [BatchRecord(0, 5, None, b"v"), BatchRecord(1, -1, b"k", None)]
    assert (batch.max_timestamp, batch.producer_id, batch.partition_leader_epoch) == (5, -1, -1)


WHOLE = records.encode(RECORDS)
BROKEN = WHOLE[:-1] + b"!"
DAMAGED: list[tuple[str, bytes, int, str]] = [
    ("checksum", BROKEN + WHOLE, 0, "record batch at offset 0: checksum is "),
    ("cut short", WHOLE + WHOLE[:-1], 1, "the last batch is cut short: 97 of its 98 bytes are there"),
    ("cut in its header", WHOLE + WHOLE[:5], 1, "the last batch is cut short: 5 bytes are too few for its size"),
    ("zeros", WHOLE + bytes(20), 1, "record batch at offset 0: length 0 is too small"),
    ("magic", WHOLE + WHOLE[:16] + b"\x07" + WHOLE[17:], 1, "record batch at offset 0: magic 7 is unknown"),
    ("compression", patched(set_attributes(7)), 0, "record batch at offset 100: unknown compression codec 7"),
    ("not compressed", patched(set_attributes(1)), 0, "record batch at offset 100: gzip data cannot be decompressed"),
    ("records", batch_of(b"\x0c\0"), 0, "record batch at offset 3: "),
    ("message", message(b"v", crc=1), 0, "message at offset 0: checksum is "),
    ("zstd", wrapped(message(b"v"), codec=Compression.ZSTD), 0, "message at offset 0: it is compressed with zstd"),
]


@pytest.mark.parametrize(("data", "place", "problem"), [row[1:] for row in DAMAGED], ids=[row[0] for row in DAMAGED])
def test_damage_is_named_and_kept(run: Run, tmp_path: Path, data: bytes, place: int, problem: str) -> None:
    batches, again = through_json(data)
    assert again == data
    assert batches[place]["problem"].startswith(problem)
    assert [index for index, batch in enumerate(batches) if "problem" in batch] == [place]
    file = tmp_path / "segment.log"
    file.write_bytes(data)
    code, out, err = run("records", str(file))
    assert code == 1
    assert [json.loads(line) for line in out.splitlines()] == batches
    assert err.startswith(f"error: position {batches[place]['position']}: {problem}")
    assert err.count("\n") == 1


@given(st.binary(max_size=90) | st.tuples(batches(), st.integers(0), st.integers(0, 255)).map(lambda it: spoilt(*it)))
@settings(deadline=None)
def test_any_bytes_round_trip(data: bytes) -> None:
    for form in FORMS:
        batches, again = through_json(data, form)
        if all(batch.get("compression", "none") == "none" for batch in batches):
            assert again == data


def spoilt(batch: bytes, where: int, byte: int) -> bytes:
    """One byte is changed and the checksum made right, so that the damage isn't found by the checksum."""
    data = bytearray(batch)
    data[where % len(data)] = byte
    if data[16] == 2 and len(data) == struct.unpack_from(">i", data, 8)[0] + 12:
        patch.update_crc(data)
    return bytes(data)


WRONG: list[tuple[Any, str]] = [
    (5, ": expected base64 or an array of batches, got 5"),
    ([5], "[0]: expected an object, got 5"),
    ([{}], "[0].records: missing"),
    ([{"raw": "!"}], "[0].raw: expected base64, got '!'"),
    ([{"raw": "", "x": 1}], "[0].x: unknown field"),
    ([{"records": {}}], "[0].records: expected an array, got an object"),
    ([{"records": [], "magic": 3}], "[0].magic: 3 is unknown"),
    ([{"records": [], "magic": "2"}], "[0].magic: expected a number, got '2'"),
    ([{"records": [], "isControl": 1}], "[0].isControl: expected true or false, got 1"),
    (
        [{"records": [], "compression": "bz2"}],
        "[0].compression: expected one of none, gzip, snappy, lz4, zstd",
    ),
    ([{"records": [], "unknownAttributes": 16}], "[0].unknownAttributes: 0x10 includes bits of named attributes"),
    ([{"records": [], "producerEpoch": 1 << 15}], "[0].producerEpoch: 32768 does not fit int16"),
    ([{"records": [], "lastOffset": 1 << 31}], "[0].lastOffset: 2147483648 is too far from the batch's 0"),
    ([{"records": [{"value": 5}]}], "[0].records[0].value: expected base64, got 5"),
    ([{"records": [{}, {"valve": ""}]}], "[0].records[1].valve: unknown field"),
    ([{"records": [{"headers": [{"value": ""}]}]}], "[0].records[0].headers[0].key: expected a string, got null"),
    (
        [{"records": [{"headers": [{"key": "\ud800"}]}]}],
        "[0].records[0].headers[0].key: expected a string",
    ),
    (
        [{"baseOffset": 9, "records": [{"offset": -(1 << 40)}]}],
        "[0].records[0].offset: -1099511627776 is too far",
    ),
    (
        [{"baseTimestamp": -9, "records": [{"timestamp": (1 << 63) - 1}]}],
        "[0].records[0].timestamp: 9223372036854775807",
    ),
    ([{"records": [{"value": {"body": {}}}]}], "[0].records[0].value: expected the document of a payload"),
    ([{"records": [{"value": {"payload": "NoOpRecord"}}]}], "[0].records[0].value: a document needs a body"),
    (
        [{"records": [{"key": "AAAAAQ==", "controlType": "ABORT"}]}],
        "[0].records[0].controlType: 'ABORT', but",
    ),
    ([{"magic": 1, "records": []}], "[0].records: 0 records, but an uncompressed message has exactly one"),
    ([{"magic": 1, "records": [{"headers": []}]}], "[0].records[0].headers: unknown field"),
    (
        [{"magic": 1, "compression": "zstd", "records": [{}]}],
        "[0].compression: expected one of none, gzip, snappy, lz4, got",
    ),
    ([{"magic": 0, "unknownAttributes": 8, "records": [{}]}], "[0].unknownAttributes: includes bits of named"),
]


@pytest.mark.parametrize(("data", "complaint"), WRONG, ids=[complaint[:50] for _, complaint in WRONG])
def test_wrong_json_is_named_by_its_path(data: Any, complaint: str) -> None:
    with pytest.raises(KafkaError) as caught:
        pack_batches(data)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize("form", ["hex", "base64"])
def test_a_record_set_as_text(run: Run, form: str) -> None:
    text = WHOLE.hex() if form == "hex" else b64encode(WHOLE).decode()
    code, out, err = run("records", "--from", form, "-", stdin=text.encode())
    assert (code, err) == (0, "")
    assert run("encode", "-", stdin=out.encode()).out == f"{WHOLE.hex()}\n"


def test_problems_are_counted(run: Run) -> None:
    code, out, err = run("records", "-", stdin=BROKEN * 3 + WHOLE)
    assert (code, len(out.splitlines())) == (1, 4)
    assert err.startswith("error: position 0: record batch at offset 0: checksum is ")
    assert err.endswith(" (and 2 more)\n")


def test_batches_have_their_position() -> None:
    batches, _ = through_json(WHOLE * 2 + message(b"v"))
    assert [batch["position"] for batch in batches] == [0, len(WHOLE), 2 * len(WHOLE)]
