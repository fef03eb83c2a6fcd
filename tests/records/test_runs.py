"""Plain batches that are read together: what is one, and that they give what the batches give one by one."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.accelerator import forms
from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import BatchRecord, RecordBatch, decode, encode
from aiokproto.records.batch import CRC_FROM
from tests.accelerator.forms import each_form
from tests.records.strategies import batches, simple_records

pytest.importorskip("numpy")

from aiokproto.records import runs
from aiokproto.records.pieces import in_pieces
from aiokproto.records.runs import Run, decode_run
from aiokproto.records.scan import Span
from tests.records.test_pieces import rows

FORMS = forms("aiokproto.records.runs", "plain_batches")
CHECKS = forms("aiokproto.records.runs", "first_damaged")
each_finder = pytest.mark.parametrize("find", each_form("aiokproto.records.runs", "plain_batches"))
each_check = pytest.mark.parametrize("check", each_form("aiokproto.records.runs", "first_damaged"))

PLAIN = bytes(encode(simple_records(3), base_offset=5))


def patched(form: str, place: int, value: int) -> bytes:
    changed = bytearray(PLAIN)
    struct.pack_into(form, changed, place, value)
    return bytes(changed)


OTHERS = {
    "compressed": bytes(encode(simple_records(3), compression="gzip")),
    "transactional": patched(">h", 21, 0x10),
    "control": patched(">h", 21, 0x20),
    "a message set": bytes(encode([BatchRecord(0, 1, None, b"v")], magic=1)),
    "empty": patched(">i", 57, 0),
    "cut": PLAIN[:-1],
    "shorter than a header": PLAIN[:60],
}

IMPOSSIBLE = {
    "a negative length": patched(">i", 8, -1),
    "a length below that of the header": patched(">i", 8, 48),
    "the longest length": patched(">i", 8, 2**31 - 1),
    "a negative count": patched(">i", 57, -1),
    "a negative last offset": patched(">i", 23, -1),
    "unknown attributes": patched(">h", 21, -1),
    "another magic": patched(">b", 16, 3),
}


def one_by_one(data: bytes) -> list[BatchRecord]:
    return [record for batch in decode(data) for record in batch]


def together(data: bytes, size: int, most: int) -> list[BatchRecord]:
    run, rest = decode_run(data)
    found: list[RecordBatch | Run] = [*([run] if run else []), *rest]
    return [record for piece in in_pieces(found, size, most, check_crc=True) for record in rows(piece)]


@each_finder
@pytest.mark.parametrize("name", [*OTHERS, *IMPOSSIBLE])
def test_a_run_ends_at_any_other_batch(find: Any, name: str) -> None:
    other = (OTHERS | IMPOSSIBLE)[name]
    spans, checksums = find(PLAIN + PLAIN + other)
    first = RecordBatch(PLAIN)
    times = first.base_timestamp, 0, first.max_timestamp
    assert [Span(*span) for span in spans.tolist()] == [
        Span(61, len(PLAIN), 3, 5, *times),
        Span(len(PLAIN) + 61, 2 * len(PLAIN), 3, 5, *times),
    ]
    assert checksums.tolist() == [first.crc] * 2
    assert [len(found) for found in find(other)] == [0, 0]


@each_finder
def test_the_time_of_the_broker_is_that_of_every_record(find: Any) -> None:
    appended = patched(">h", 21, 8)
    before, after = (Span(*span) for span in find(PLAIN + appended)[0].tolist())
    assert before.timestamp_type == 0
    assert (after.timestamp_type, after.append_time) == (1, RecordBatch(appended).max_timestamp)


@pytest.mark.skipif("compiled" not in FORMS, reason="the accelerator is not in use")
@given(st.lists(batches(), max_size=6), st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3))
def test_both_forms_find_the_same(stored: list[bytes], changes: list[tuple[int, int]]) -> None:
    data = bytearray(b"".join(stored))
    for place, value in changes:
        data[place % (len(data) + 1) : place % (len(data) + 1) + 1] = bytes([value])
    (spans, checksums), expected = FORMS["compiled"](data), FORMS["pure"](data)
    assert [spans.tolist(), checksums.tolist()] == [found.tolist() for found in expected]
    assert (spans.dtype, checksums.dtype) == tuple(found.dtype for found in expected)
    assert CHECKS["compiled"](data, spans, checksums) == CHECKS["pure"](data, spans, checksums)


@each_check
@given(count=st.integers(1, 5), place=st.integers(0, 4), byte=st.integers(0, 2**16))
def test_the_first_damaged_batch_is_found(check: Any, count: int, place: int, byte: int) -> None:
    data = bytearray(PLAIN * count)
    spans, checksums = runs.plain_batches(data)
    assert check(data, spans, checksums) is None
    assert check(data, spans[:0], checksums[:0]) is None
    damaged = place % count
    for index in range(damaged, count):
        data[index * len(PLAIN) + CRC_FROM + byte % (len(PLAIN) - CRC_FROM)] ^= 1
    assert check(data, spans, checksums) == damaged
    assert check(data, spans[damaged:], checksums[damaged:]) == 0


@each_check
def test_spans_that_the_data_does_not_have(check: Any) -> None:
    spans, checksums = runs.plain_batches(PLAIN + PLAIN)
    size = len(PLAIN)
    with pytest.raises(IndexError, match=f"^batch 1 spans {size + 61} to {2 * size} of {size} bytes$"):
        check(PLAIN, spans, checksums)
    spans[0, 0] = 39
    with pytest.raises(IndexError, match=f"^batch 0 spans 39 to {size} of"):
        check(PLAIN, spans, checksums)
    with pytest.raises(ValueError, match=r"^1 spans, 2 checksums$"):
        check(PLAIN, spans[1:], checksums)


@given(st.lists(batches(), max_size=6), st.integers(1, 2000), st.integers(1, 40))
def test_batches_of_any_kind_give_their_records(stored: list[bytes], size: int, most: int) -> None:
    data = b"".join(stored)
    try:
        expected = one_by_one(data)
    except KafkaError:
        return
    assert together(data, size, most) == expected


def test_small_batches_are_one_piece() -> None:
    data = PLAIN * 40
    run, rest = decode_run(data + OTHERS["compressed"] + PLAIN[:30])
    assert run is not None
    assert len(run.spans) == 40
    assert [batch.count for batch in rest] == [3]
    assert [len(piece) for piece in in_pieces([run], 1 << 20, 1000)] == [120]
    assert [len(piece) for piece in in_pieces([run], 1 << 20, 50)] == [48, 48, 24]
    assert [len(piece) for piece in in_pieces([run], 1 << 20, 2)] == [2, 1] * 40


def test_batches_behind_an_offset_are_left_out() -> None:
    data = b"".join(bytes(encode(simple_records(3), base_offset=base)) for base in (0, 3, 6))
    run, _ = decode_run(data)
    assert run is not None
    assert (run.base_offset, run.next_offset) == (0, 9)
    assert run.before(9) is run
    cut = run.before(4)
    assert cut is not None
    assert [batch.base_offset for batch in cut.batches()] == [0, 3]
    assert run.before(0) is None


@pytest.mark.parametrize("place", [-2, 62])
def test_damage_is_found_and_named(place: int) -> None:
    damaged = bytearray(encode(simple_records(3), base_offset=8))
    damaged[place] ^= 1
    run, _ = decode_run(PLAIN + damaged)
    assert run is not None
    with pytest.raises(CorruptRecordError, match="record batch at offset 8: checksum"):
        list(in_pieces([run], 1000, 1000, check_crc=True))


def test_records_that_are_not_those_of_the_header_are_named() -> None:
    run, _ = decode_run(PLAIN + patched(">i", 57, 2))
    assert run is not None
    with pytest.raises(CorruptRecordError, match="record batch at offset 5"):
        list(in_pieces([run], 1000, 1000))


def test_data_that_columns_cannot_refer_to_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_DATA", len(PLAIN) - 1)
    run, rest = decode_run(PLAIN)
    assert run is None
    assert [batch.base_offset for batch in rest] == [5]
