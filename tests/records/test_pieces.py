"""Batches read in pieces give what they give at once, and no more is held than a piece needs."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import BatchRecord, Compression, RecordBatch, compress, decode, decompress, encode
from aiokproto.records.compression import chunks
from aiokproto.records.cutting import cut
from aiokproto.records.patch import restamp
from tests.accelerator.forms import each_form
from tests.records.legacy_sets import message, wrapped
from tests.records.strategies import batches, codecs, record_lists, simple_records

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from aiokproto.records import pieces
from aiokproto.records.columns import Columns
from aiokproto.records.pieces import in_pieces
from aiokproto.records.runs import decode_run

MIB = 1 << 20
PACKING = [codec for codec in Compression if codec]
each_cutter = pytest.mark.parametrize("whole", each_form("aiokproto.records.scan", "whole_records"))
sizes = st.integers(1, 2000) | st.just(8 * MIB)
counts = st.integers(1, 40)
changes = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4)


def rows(columns: Columns) -> list[BatchRecord]:
    found = columns.headers()
    return [
        BatchRecord(int(columns.offset[i]), int(columns.timestamp[i]), columns.key[i], columns.value[i], found[i])
        for i in range(len(columns))
    ]


def read(data: bytes | bytearray, size: int, most: int) -> list[BatchRecord]:
    return [record for piece in in_pieces(decode(data, check_crc=False), size, most) for record in rows(piece)]


def objects(data: bytes | bytearray) -> list[BatchRecord]:
    return [record for batch in decode(data, check_crc=False, max_decompressed=64 * MIB) for record in batch]


def patched(batch: bytes | bytearray, *, count: int) -> bytearray:
    """Its header says another number of records."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 57, count)
    return changed


@st.composite
def stored(draw: st.DrawFn) -> bytes:
    """A batch of any format and codec."""
    magic = draw(st.sampled_from([0, 1, 2, 2]))
    if magic == 2:
        return draw(batches())
    base_offset, records = draw(record_lists(max_size=12))
    records = [BatchRecord(0, record.timestamp, record.key, record.value) for record in records]
    codec = draw(codecs.filter(lambda codec: codec is not Compression.ZSTD))
    return bytes(encode(records, magic=magic, compression=codec, base_offset=base_offset))


@pytest.fixture(params=each_form("aiokproto.records.scan", "whole_records"))
def cutter(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each form of what looks for the ends of records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "whole_records", request.param)
        yield


each = pytest.mark.usefixtures("cutter")


@each
@given(st.lists(stored(), max_size=4), sizes, counts)
def test_pieces_equal_iteration(parts: list[bytes], size: int, most: int) -> None:
    data = b"".join(parts)
    assert read(data, size, most) == objects(data)


@each
@given(stored(), changes, sizes, counts)
def test_damage_raises_our_errors_or_reads_the_same(
    part: bytes, damage: list[tuple[int, int]], size: int, most: int
) -> None:
    damaged = bytearray(part)
    for position, byte in damage:
        damaged[position % len(damaged)] = byte
    try:
        found = read(damaged, size, most)
    except KafkaError:
        with pytest.raises(KafkaError):
            objects(damaged)
    else:
        assert found == objects(damaged)


@given(stored(), sizes, counts)
def test_a_piece_has_no_more_than_it_may(part: bytes, size: int, most: int) -> None:
    for piece in in_pieces(decode(part), size, most):
        fields = ((piece.key.start, piece.key.end), (piece.value.start, piece.value.end))
        held = sum(int((end - start).sum()) for start, end in (*fields, (piece.header_start, piece.header_end)))
        assert len(piece) <= most
        assert len(piece) == 1 or held <= size


@each_cutter
@given(st.lists(st.integers(6, 300), max_size=30), st.integers(1, 500), st.integers(1, 2000), counts)
def test_cutting_does_not_depend_on_the_chunks(
    whole: Callable[..., Any], lengths: list[int], chunk: int, size: int, most: int
) -> None:
    data = encode([BatchRecord(0, 0, None, bytes(length)) for length in lengths])[61:] if lengths else b""
    found = list(cut((data[at : at + chunk] for at in range(0, len(data), chunk)), size, most, whole))
    assert b"".join(piece for piece, _ in found) == data
    assert sum(count for _, count in found) == len(lengths)
    for piece, count in found:
        assert count <= most
        assert count == 1 or len(piece) <= size


@each_cutter
@pytest.mark.parametrize("data", [b"\x01", b"\x0a" + bytes(5), b"\xff" * 5, b"\xff\xff\xff\xff\x1f" + bytes(9)])
def test_a_length_that_no_record_has(whole: Callable[..., Any], data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="length"):
        whole(data, 0, 100, 10)


@each_cutter
def test_the_end_of_the_next_record(whole: Callable[..., Any]) -> None:
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    assert whole(record * 3, 0, 21, 10) == (3, 21, 22)
    assert whole(record * 3, 0, 20, 10) == (2, 14, 21)
    assert whole(record * 3, 7, 20, 1) == (1, 14, 21)
    assert whole(record + b"\x84\x02", 0, 500, 10) == (1, 7, 7 + 2 + 130)
    assert whole(record + b"\x84", 0, 500, 10) == (1, 7, 9)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_record_over_the_limit_is_not_collected(magic: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length is false: a megabyte of gzip can be gigabytes of zeros."""
    collected: list[int] = []

    def counted(codec: Compression, data: Any, *limits: int) -> Iterator[Any]:
        for chunk in chunks(codec, data, *limits):
            collected.append(len(chunk))
            yield chunk

    monkeypatch.setattr("aiokproto.records.legacy.chunks", counted)
    monkeypatch.setattr("aiokproto.records.batch.chunks", counted)
    start = bytes((0x80, 0x80, 0x80, 0x80, 0x08)) if magic == 2 else struct.pack(">qi", 0, 1 << 30)
    packed = bytes(compress(Compression.GZIP, start + bytes(100 * MIB)))
    if magic == 2:
        data = bytearray(encode([BatchRecord(0, 0, None, bytes(MIB))])[:61] + packed)
        struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">h", data, 21, Compression.GZIP)
    else:
        data = bytearray(message(packed, magic=magic, attributes=Compression.GZIP))
    with pytest.raises(CorruptRecordError, match="more than the limit of"):
        list(in_pieces(decode(data, check_crc=False, max_record=4 * MIB), MIB, 1000))
    assert sum(collected) <= 2 * MIB


def test_small_batches_are_read_together() -> None:
    data = b"".join(
        encode(simple_records(10, base_offset=n), base_offset=n, compression="lz4") for n in range(0, 90, 10)
    )
    assert [len(piece) for piece in in_pieces(decode(data), 4500, 100)] == [40, 40, 10]
    assert [len(piece) for piece in in_pieces(decode(data), MIB, 25)] == [20, 20, 20, 20, 10]
    assert [len(piece) for piece in in_pieces(decode(data), MIB, 6)] == [6, 4] * 9


def test_a_large_batch_among_small_ones() -> None:
    sizes = (3, 50, 3)
    data = b"".join(encode(simple_records(count), compression="zstd") for count in sizes)
    assert [len(piece) for piece in in_pieces(decode(data), 2200, 100)] == [3, 20, 20, 10, 3]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("count", [99, 101])
def test_a_count_that_is_not_that_of_the_batch(codec: Compression, count: int) -> None:
    data = patched(encode(simple_records(100), base_offset=70, compression=codec), count=count)
    with pytest.raises(CorruptRecordError, match=f"record batch at offset 70: .*{count}"):
        read(data, 1000, 1000)


@pytest.mark.parametrize("codec", PACKING)
def test_damage_in_a_later_piece(codec: Compression) -> None:
    """It names the record; what came before is right."""
    good = encode(simple_records(100), base_offset=5)
    body = bytearray(good[61:])
    size = len(body) // 100
    # The value's length of a record in the middle.
    body[50 * size + 6 + (body[50 * size] > 127)] += 2
    packed = bytes(compress(codec, body))
    data = bytearray(good[:61] + packed)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec)
    found = in_pieces(decode(data, check_crc=False), 1000, 1000)
    assert [record.offset for record in rows(next(found))] == list(range(5, 14))
    with pytest.raises(CorruptRecordError, match=r"record batch at offset 5: after 4\d records: record \d of"):
        list(found)


def test_log_append_time_is_that_of_all_pieces() -> None:
    appended = bytearray(encode(simple_records(30), compression="lz4"))
    restamp(appended, 0, 777)
    found = list(in_pieces(decode(appended, check_crc=False), 1000, 1000))
    assert len(found) > 1
    assert {time for piece in found for time in piece.timestamp.tolist()} == {777}
    assert {kind for piece in found for kind in piece.timestamp_type.tolist()} == {1}


def test_sets_nested_in_one_another() -> None:
    """Each depth is opened in pieces, too."""
    inner = [message(bytes(100), magic=0, offset=n) for n in range(40)]
    deep = wrapped(*inner[10:], magic=0, offset=39)
    data = wrapped(*inner[:10], deep, magic=0, offset=39)
    assert [record.offset for record in read(data, 1000, 1000)] == list(range(40))
    assert [len(piece) for piece in in_pieces(decode(data), 10_000, 8)] == [8, 2, 8, 8, 8, 6]


def test_sets_nested_in_one_another_have_a_limit_together() -> None:
    """Each level multiplies: a few kilobytes would never end."""
    deep = message(b"v", magic=0)
    for _ in range(3):
        deep = wrapped(*[deep] * 20, magic=0)
    # 20 sets of 20 messages in each of 20 sets.
    size = 20 * (20 * len(wrapped(*[message(b"v", magic=0)] * 20, magic=0)) + 20 * 20 * len(message(b"v", magic=0)))
    (batch,) = in_pieces(decode(deep, max_decompressed=size), MIB, 10_000)
    assert len(batch) == 8000
    with pytest.raises(CorruptRecordError, match=r"message at offset 0: sets inside of sets exceed the limit .* by 1"):
        list(in_pieces(decode(deep, max_decompressed=size - 1), MIB, 10_000))


@pytest.mark.parametrize("magic", [0, 1])
def test_damage_inside_a_set_of_an_old_format(magic: int) -> None:
    inner = [message(bytes(100), magic=magic, offset=n) for n in range(40)]
    inner[30] = message(bytes(100), magic=magic, offset=30, crc=1)
    data = wrapped(*inner, magic=magic, offset=39)
    with pytest.raises(CorruptRecordError, match=r"message at offset 39: .*checksum"):
        list(in_pieces(decode(data), 1000, 1000))
    with pytest.raises(CorruptRecordError, match="message at offset 5: there is no message"):
        list(in_pieces(decode(wrapped(magic=magic, offset=5)), 1000, 1000))


@given(st.sampled_from(list(Compression)), st.binary(max_size=300), st.integers(1, 500))
def test_chunks_are_the_data(codec: Compression, piece: bytes, times: int) -> None:
    data = piece * times
    assert b"".join(chunks(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", PACKING)
def test_chunks_of_much_data_that_cannot_be_compressed(codec: Compression) -> None:
    """Libraries are fed a slice at a time."""
    data = os.urandom(3 * MIB + 17)
    found = list(chunks(codec, compress(codec, data)))
    assert b"".join(found) == data
    assert max(map(len, found)) <= MIB


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("left", [1, MIB, MIB + 1, 2 * MIB])
def test_chunks_of_data_cut_short(codec: Compression, left: int) -> None:
    packed = bytes(compress(codec, os.urandom(3 * MIB)))
    with pytest.raises(CorruptRecordError, match="decompressed"):
        list(chunks(codec, packed[:left]))


def test_gzip_members_that_meet_where_slices_do() -> None:
    for padding in range(1000, 2100, 50):
        packer = zlib.compressobj(0, wbits=31)
        first = packer.compress(bytes(MIB - padding)) + packer.flush()
        data = first + bytes(compress(Compression.GZIP, b"more"))
        assert b"".join(chunks(Compression.GZIP, data)) == bytes(MIB - padding) + b"more"
        assert decompress(Compression.GZIP, data) == bytes(MIB - padding) + b"more"


def test_a_block_of_snappy_beyond_the_limit_is_named() -> None:
    """It cannot be decompressed in pieces, as others can be whose sum is as much."""
    data = bytes(3000)
    with pytest.raises(
        CorruptRecordError, match=r"a block of 3000 bytes, which cannot be read in pieces, .*2999 bytes"
    ):
        list(chunks(Compression.SNAPPY, snappy.compress(data), 2999))
    assert b"".join(chunks(Compression.SNAPPY, snappy.compress(data), 3000)) == data
    packed = compress(Compression.SNAPPY, bytes(100_000))
    assert sum(map(len, chunks(Compression.SNAPPY, packed, 32 * 1024))) == 100_000


def test_a_bare_block_of_snappy_is_cut() -> None:
    records = simple_records(50)
    body = encode(records)[61:]
    data = bytearray(encode(records, compression="snappy")[:61] + snappy.compress(bytes(body)))
    struct.pack_into(">i", data, 8, len(data) - 12)
    assert [len(piece) for piece in in_pieces([RecordBatch(data)], 2200, 1000)] == [20, 20, 10]
    lie = bytearray(data[:61] + b"\x81\x80\x80\x80\x01" + bytes(1 << 24))
    struct.pack_into(">i", lie, 8, len(lie) - 12)
    with pytest.raises(CorruptRecordError, match=r"record batch at offset 0: .*limit of 52428800 bytes"):
        list(in_pieces([RecordBatch(lie)], 2200, 1000))


def broken() -> list[Any]:
    """A batch at offset 30 whose damage is found in one of the ways there are, and whether by its checksum."""
    good = encode(simple_records(10), base_offset=30, compression="lz4")
    wrong, other, cut, magic, length = (bytearray(good) for _ in range(5))
    wrong[17] ^= 1
    struct.pack_into(">h", other, 21, 6)
    cut[-20:] = bytes(20)
    magic[16] = 9
    plain = encode(simple_records(10), base_offset=30)
    length = bytearray(plain)
    length[61] += 2
    old = bytearray(encode([BatchRecord(0, 0, None, b"v")], magic=1, base_offset=30))
    old[-1] ^= 1
    return [
        pytest.param(wrong, True, id="a checksum"),
        pytest.param(other, False, id="a codec"),
        pytest.param(cut, False, id="compressed data"),
        pytest.param(magic, False, id="a header"),
        pytest.param(length, False, id="the length of a record"),
        pytest.param(patched(plain, count=9), False, id="the count of records"),
        pytest.param(old, True, id="a message of an old format"),
        pytest.param(wrapped(magic=1, offset=30), False, id="an empty message set"),
    ]


@pytest.mark.parametrize(("bad", "check_crc"), broken())
@pytest.mark.parametrize("form", ["plain", "compressed", "old", "adjacent"])
def test_what_is_before_the_damage_is_yielded(bad: bytes | bytearray, check_crc: bool, form: str) -> None:
    """As iteration does, although small batches are read together."""
    options: dict[str, Any] = (
        {"magic": 1} if form == "old" else {"compression": "lz4" if form == "compressed" else "none"}
    )
    records = [BatchRecord(0, each.timestamp, None, each.value) for each in simple_records(10)]
    data = b"".join(encode(records, base_offset=base, **options) for base in (0, 10, 20)) + bytes(bad)
    expected = objects(data[: -len(bad)])
    source: Any = decode(data, check_crc=False)
    if form == "adjacent":
        run, rest = decode_run(data)
        source = chain([run], rest)
    found: list[BatchRecord] = []
    with pytest.raises(KafkaError, match=r"offset 30"):
        found.extend(record for piece in in_pieces(source, MIB, 1000, check_crc=check_crc) for record in rows(piece))
    assert found == expected
