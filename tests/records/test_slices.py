"""Slices of a batch are what reading it at once gives: the same records, or the same damage behind good ones."""

from __future__ import annotations

import copy
import gzip
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import BatchRecord, Compression, LegacyBatch, RecordBatch, compress, decode, encode, slices
from aiokproto.records.compression import MAX_FRAMES, chunks, declared_size
from aiokproto.records.cutting import joined
from aiokproto.records.record import HEADER_WEIGHT, read_records, read_slice
from aiokproto.records.slices import SMALL_BYTES, SMALL_RECORD, Slices
from tests.accelerator.forms import each_form
from tests.decompressions import count_decompressions
from tests.records.bombs import MIB, TINY, batch, packed, record
from tests.records.legacy_sets import message, wrapped
from tests.records.strategies import batches, codecs, record_lists, simple_records

INT64_MAX = 2**63 - 1
changes = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=3)
each_reader = pytest.mark.parametrize("reader", each_form("aiokproto.records.record", "read_slice"))


@pytest.fixture(params=each_form("aiokproto.records.record", "read_slice"))
def reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each form of what reads a slice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "read_slice", request.param)
        yield


each = pytest.mark.usefixtures("reader")


def at_once(one: RecordBatch) -> tuple[list[BatchRecord] | None, bool]:
    """All records before the first damage, and whether there is any; None if nothing can be decompressed at once."""
    found: list[BatchRecord] = []

    def make(*fields: Any) -> None:
        found.append(BatchRecord(*fields))

    try:
        body = one.body()
    except KafkaError:
        return None, True
    try:
        append_time = one.place[2]
        read_records(body, one.count, one.base_offset, one.base_timestamp, append_time, make)
    except KafkaError:
        return found, True
    return found, False


def in_slices(one: RecordBatch) -> tuple[list[list[BatchRecord]], bool]:
    found: list[list[BatchRecord]] = []
    source = one.slices(BatchRecord)
    try:
        while not source.ended:
            found.append(source.read())
    except KafkaError:
        return found, True
    return found, False


@each
@given(batches(), changes, st.integers(1, 400), st.integers(1, 8), st.integers(1, 4), st.booleans())
@example(bytes(encode(simple_records(20))), [], 40, 3, 1, True)
def test_slices_are_what_is_read_at_once(
    stored: bytes, damage: list[tuple[int, int]], size: int, most: int, headers: int, asked: bool
) -> None:
    data = bytearray(stored)
    for position, byte in damage:
        data[61 + position % (len(data) - 61) if len(data) > 61 else 60] = byte
    try:
        one = RecordBatch(data, max_decompressed=MIB)
    except CorruptRecordError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_BYTES", size)
        patch.setattr(slices, "SLICE_RECORDS", most)
        patch.setattr(slices, "SLICE_HEADERS", headers)
        if asked:
            patch.setattr(slices, "QUICK_RECORDS", most)
            patch.setattr(slices, "QUICK_BYTES", size)
        found, damaged = in_slices(one)
    expected, wrong = at_once(one)
    assert damaged is wrong
    flat = [each for part in found for each in part]
    assert expected is None or flat == (expected[: len(flat)] if damaged else expected)
    for part in found:
        assert len(part) <= most
        # The first record of a slice may have more.
        assert not part or sum(len(each.headers) for each in part) <= max(headers, len(part[0].headers))


@given(record_lists(max_size=30), codecs.filter(lambda codec: codec is not Compression.ZSTD), st.integers(0, 1))
def test_slices_of_old_formats(rows: tuple[int, list[BatchRecord]], codec: Compression, magic: int) -> None:
    base, records = rows
    plain = [BatchRecord(0, each.timestamp, each.key, each.value) for each in records]
    data = encode(plain, magic=magic, compression=codec, base_offset=base)
    for one in decode(data):
        assert isinstance(one, LegacyBatch)
        whole = one.records_within(MIB, BatchRecord)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slices, "SLICE_RECORDS", 3)
            patch.setattr(slices, "QUICK_BYTES", 100)
            found, damaged = in_slices(one)
        assert not damaged
        assert [each for part in found for each in part] == whole


@each
def test_a_usual_batch_is_one_slice() -> None:
    for codec in Compression:
        for count, size in ((1, MIB), (500, 1000), (10_000, 90), (30_000, 20)):
            data = encode([BatchRecord(0, 0, None, bytes(size))] * count, compression=codec)
            (one,) = decode(data)
            found, damaged = in_slices(one)
            assert (len(found), len(found[0]), damaged) == (1, count, False)


@each
def test_a_slice_is_bounded_by_what_its_records_become() -> None:
    many = RecordBatch(batch(packed(Compression.ZSTD, TINY * 100_000), 100_000, 4))
    assert [len(part) for part in in_slices(many)[0]] == [32768, 32768, 32768, 1696]
    headers = RecordBatch(batch(packed(Compression.ZSTD, record(headers=30_000) * 5), 5, 4))
    assert [len(part) for part in in_slices(headers)[0]] == [2, 2, 1]


@each
@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("one", [{"value": 3 * MIB}, {"header": 3 * MIB}, {"headers": 30_000}])
def test_a_record_over_the_limit_is_named_with_its_size_and_the_option(codec: Compression, one: dict[str, int]) -> None:
    body = TINY * 40_000 + record(**one)
    data = batch(packed(codec, body), 40_001, codec)
    found, damaged = in_slices(RecordBatch(data, max_record=MIB if codec is not Compression.SNAPPY else 4 * MIB))
    if codec is Compression.SNAPPY and "headers" not in one:
        assert not damaged
        return
    assert damaged
    assert sum(map(len, found)) >= 32_768
    with pytest.raises(CorruptRecordError, match=r"offset 0: .*\d{7} bytes.* limit of 3145728.*\(max_record_bytes\)"):
        list(RecordBatch(data, max_record=3 * MIB))


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_batch_over_the_limit_is_named_with_the_option(codec: Compression) -> None:
    (one,) = decode(encode(simple_records(1000), compression=codec), max_decompressed=10_000)
    with pytest.raises(CorruptRecordError, match=r"offset 0: .* limit of 10000 bytes.*\(max_decompressed_bytes\)"):
        one.slices(BatchRecord).read()


@pytest.mark.parametrize("damaged", [batch(packed(Compression.ZSTD, TINY + b"\xff"), 2, 4), batch(record(5000))])
def test_an_error_does_not_keep_what_was_decompressed(damaged: bytes) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        list(RecordBatch(damaged, max_record=1000))
    assert caught.value.__context__ is not None
    assert caught.value.__context__.__traceback__ is None


def test_headers_count_as_objects() -> None:
    data = record(headers=10)
    size = len(data) + 10 * HEADER_WEIGHT
    for most, fits in ((size, True), (size - 1, False)):
        found, damaged = in_slices(RecordBatch(batch(data), max_record=most))
        assert damaged is not fits
        assert not fits or len(found[0][0].headers) == 10


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, 70_000])
def test_a_size_that_is_declared_is_known_before(size: int) -> None:
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.ZSTD):
        assert declared_size(codec, packed(codec, bytes(size))) == (
            size if size or codec is not Compression.GZIP else 0
        )
    for codec in Compression:
        assert declared_size(codec, compress(codec, bytes(size))) in (0, size)
        assert declared_size(codec, packed(codec, bytes(size))[:3]) >= 0


def test_members_of_gzip_have_a_limit() -> None:
    one = gzip.compress(b"")
    assert b"".join(chunks(Compression.GZIP, one * (MAX_FRAMES - 1) + gzip.compress(b"a"))) == b"a"
    with pytest.raises(CorruptRecordError, match=f"more than {MAX_FRAMES} streams"):
        list(chunks(Compression.GZIP, one * (MAX_FRAMES + 1)))


@each_reader
def test_the_record_that_is_damaged_is_counted_from_the_first_of_the_batch(reader: Any) -> None:
    place = (0, 0, None, 12)
    with pytest.raises(CorruptRecordError, match=r"within record 11 of 12|record 11 of 12"):
        reader(TINY + b"\x0c", place, 10, 2, BatchRecord, 100, 1000)
    assert reader(TINY * 2, place, 10, 1, BatchRecord, 100, 1000)[1] == len(TINY)
    assert read_slice(TINY * 2, place, 10, 2, BatchRecord, 100, 1000)[1] == 2 * len(TINY)


@pytest.mark.parametrize(
    ("base", "last", "count"),
    [(INT64_MAX, 0, 1), (INT64_MAX - 1, 1, 1), (0, -1, 1), (0, -(2**31), 1), (0, 0, -1), (0, 0, -(2**31))],
)
def test_a_header_at_the_bounds_is_damage(base: int, last: int, count: int) -> None:
    with pytest.raises(CorruptRecordError, match="offset"):
        RecordBatch(batch(TINY, count, base=base, last=last))


@each
@pytest.mark.parametrize("base", [INT64_MAX - 1, INT64_MAX - 2])
def test_a_record_without_an_offset_behind_it_is_damage(base: int) -> None:
    body = bytes([12, 0, 0, 2 * (INT64_MAX - base), 1, 1, 0])
    with pytest.raises(CorruptRecordError, match="64 bits"):
        list(RecordBatch(batch(body, base=base)))


def test_an_old_message_without_an_offset_behind_it_is_damage() -> None:
    data = bytearray(encode([BatchRecord(0, 0, None, b"v")], magic=1))
    struct.pack_into(">q", data, 0, INT64_MAX)
    with pytest.raises(CorruptRecordError, match="no offset behind it"):
        LegacyBatch(data)


@given(batches(), changes)
def test_a_small_batch_is_read_at_once_as_in_slices(stored: bytes, damage: list[tuple[int, int]]) -> None:
    data = bytearray(stored)
    for position, byte in damage:
        data[61 + position % (len(data) - 61) if len(data) > 61 else 60] = byte
    try:
        one = RecordBatch(data)
    except CorruptRecordError:
        return
    found, damaged = in_slices(one)
    with suppress(KafkaError):
        # Else it grows when it is decompressed.
        assume(sum(len(chunk) for chunk in one.unpacked()) <= SMALL_BYTES)
    if damaged:
        with pytest.raises(KafkaError, match=f"record batch at offset {one.base_offset}: "):
            one.read_or_slice(BatchRecord)
    else:
        assert one.read_or_slice(BatchRecord) == [each for part in found for each in part]


def test_only_a_small_batch_is_read_at_once() -> None:
    for size, codec, small in (
        (SMALL_BYTES - 1000, Compression.NONE, True),
        (SMALL_BYTES, Compression.NONE, False),
        (SMALL_BYTES - 1000, Compression.GZIP, True),
        (SMALL_BYTES, Compression.GZIP, False),
    ):
        data = record(size)
        one = RecordBatch(batch(packed(codec, data) if codec else data, codec=codec))
        assert isinstance(one.read_or_slice(BatchRecord), list) is small
    assert isinstance(RecordBatch(batch(record()), max_record=SMALL_RECORD - 1).read_or_slice(BatchRecord), Slices)


def grown(codec: Compression = Compression.GZIP) -> RecordBatch:
    """A batch of three records that is too large to be read at once, which only decompressing it tells."""
    return RecordBatch(batch(packed(codec, record(SMALL_BYTES) * 3), count=3, codec=codec))


def test_what_is_too_large_to_be_read_at_once_is_decompressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(record(SMALL_BYTES) for _ in range(20))
    one = RecordBatch(batch(packed(Compression.GZIP, data), count=20, codec=Compression.GZIP))
    decompressed = count_decompressions(monkeypatch)
    begun = one.read_or_slice(BatchRecord)
    assert isinstance(begun, Slices)
    assert [len(each.value or b"") for each in rest(begun)] == [SMALL_BYTES] * 20
    assert decompressed == ["GZIP"]
    assert len(list(one)) == 20
    assert decompressed == ["GZIP"] * 2


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_batch_is_read_by_any_number_at_the_same_time(codec: Compression) -> None:
    """Each has what it has decompressed for itself, however far it has come."""
    one = grown(codec)
    begun = [
        one.read_or_slice(BatchRecord),
        copy.copy(one).read_or_slice(BatchRecord),
        iter(one),
        one.slices(BatchRecord),
    ]
    expected = list(grown(codec))
    assert list(copy.copy(one)) == list(one) == expected
    assert joined([*one.unpacked()]) == one.body() == record(SMALL_BYTES) * 3
    for each in begun:
        assert (rest(each) if isinstance(each, Slices) else list(each)) == expected


def rest(source: Slices[BatchRecord]) -> list[BatchRecord]:
    found: list[BatchRecord] = []
    while not source.ended:
        found += source.read()
    return found


def _broken() -> Iterator[Any]:
    """Batches whose damage comes late: behind all records, or behind slices that are right."""
    records = TINY * 3
    member = bytearray(gzip.compress(bytes(30)))
    member[-5] ^= 1
    yield pytest.param(
        batch(gzip.compress(records) + member, 3, Compression.GZIP), id="a damaged gzip member behind the records"
    )
    frame = packed(Compression.ZSTD, records)
    yield pytest.param(batch(frame + b"no frame", 3, Compression.ZSTD), id="no zstd frame behind the records")
    cut = packed(Compression.LZ4, records)[:-6]
    yield pytest.param(batch(cut, 3, Compression.LZ4), id="a cut lz4 frame")
    yield pytest.param(batch(records, 3, 6), id="an unknown codec")
    for codec in Compression:
        many = batch(packed(codec, TINY * 70_000 + b"\xff" * 9), 70_001, codec)
        yield pytest.param(many, id=f"damage in the third slice, {codec.name}")
    for magic in (0, 1):
        inner = [message(bytes(20_000), magic=magic, offset=offset) for offset in range(300)]
        inner[200] = message(bytes(20_000), magic=magic, offset=200, crc=1)
        yield pytest.param(wrapped(*inner, magic=magic, offset=299), id=f"a message in a large set of magic {magic}")


def read_on(source: Slices[BatchRecord], found: list[BatchRecord], asked: bool) -> None:
    if asked:
        source.is_quick()
    while not source.ended:
        found += source.read()


@pytest.mark.parametrize("data", list(_broken()))
@pytest.mark.parametrize("asked", [False, True])
def test_slices_raise_the_error_of_a_batch_each_time(data: bytes, asked: bool) -> None:
    """What is left of it may look like a batch: it never is one."""
    (one,) = decode(data)
    expected = [each for part in in_slices(one)[0] for each in part]
    source = one.slices(BatchRecord)
    found: list[BatchRecord] = []
    texts: list[str] = []
    for _ in range(3):
        with pytest.raises(KafkaError) as caught:
            read_on(source, found, asked)
        texts.append(f"{caught.type.__name__}: {caught.value}")
    assert found == expected
    assert texts == texts[:1] * 3
    assert not source.ended


def test_slices_whose_records_the_caller_could_not_make_are_not_said_to_be_damaged() -> None:
    def make(offset: int, *_: Any) -> int:
        raise LookupError("no room")

    for data in (batch(TINY), batch(TINY * 40_000, 40_000), encode([BatchRecord(0, 0, None, b"v")], magic=1)):
        source = next(decode(data)).slices(make)
        with pytest.raises(LookupError):
            source.read()
        with pytest.raises(RuntimeError, match="the batch cannot be read on after LookupError"):
            source.read()
        assert not source.ended
