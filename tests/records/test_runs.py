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
from tests.accelerator.twins import each_form
from tests.records.strategies import batches, simple_records

pytest.importorskip("numpy")

from aiokproto.records import runs
from aiokproto.records.pieces import in_pieces
from aiokproto.records.runs import Run, decode_run
from tests.records.test_pieces import rows

FORMS = forms("aiokproto.records.runs", "plain_batches")
each_finder = pytest.mark.parametrize("find", each_form("aiokproto.records.runs", "plain_batches"))

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
    assert [(span.start, span.stop, span.records, span.base_offset) for span in spans] == [
        (61, len(PLAIN), 3, 5),
        (len(PLAIN) + 61, 2 * len(PLAIN), 3, 5),
    ]
    assert checksums == [RecordBatch(PLAIN).crc] * 2
    assert find(other) == ([], [])


@each_finder
def test_the_time_of_the_broker_is_that_of_every_record(find: Any) -> None:
    appended = patched(">h", 21, 8)
    (before, after), _ = find(PLAIN + appended)
    assert before.append_time is None
    assert after.append_time == RecordBatch(appended).max_timestamp


@pytest.mark.skipif("compiled" not in FORMS, reason="the accelerator is not in use")
@given(st.lists(batches(), max_size=6), st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3))
def test_both_forms_find_the_same(stored: list[bytes], changes: list[tuple[int, int]]) -> None:
    data = bytearray(b"".join(stored))
    for place, value in changes:
        data[place % (len(data) + 1) : place % (len(data) + 1) + 1] = bytes([value])
    assert FORMS["compiled"](data) == FORMS["pure"](data)


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
    assert len(rest) == 1
