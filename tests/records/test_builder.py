"""Writing batches: sizes, limits, producer state, and agreement with another implementation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import InvalidRecordError, UnsupportedCompressionError
from aiokproto.records import BatchBuilder, BatchRecord, Compression, LegacyBuilder, decode, encode, estimate_size
from aiokproto.types import Header
from tests.records.strategies import BASE_TIMESTAMP, headers, payloads, record_lists, simple_records, timestamps


def test_append_counts_and_measures() -> None:
    builder = BatchBuilder()
    assert (builder.count, builder.size) == (0, 61)
    assert [builder.append(1, None, b"v"), builder.append(2, b"k", None)] == [0, 1]
    assert builder.count == 2
    assert builder.size == len(builder.close())


def test_a_record_that_does_not_fit_is_not_written() -> None:
    builder = BatchBuilder(max_bytes=61 + 2 * 110)
    assert [builder.append(1, None, b"v" * 100) for _ in range(3)] == [0, 1, None]
    (batch,) = decode(builder.close())
    assert batch.size_in_bytes <= 61 + 2 * 110
    assert len(list(batch)) == 2


def test_a_batch_may_be_filled_to_the_last_byte() -> None:
    size = len(encode(simple_records(2)))
    for limit, second in ((size, 1), (size - 1, None)):
        builder = BatchBuilder(max_bytes=limit)
        builder.append(BASE_TIMESTAMP, None, b"v" * 100)
        assert builder.append(BASE_TIMESTAMP, None, b"v" * 100) == second


def test_the_first_record_always_fits() -> None:
    assert BatchBuilder(max_bytes=100).append(1, None, b"v" * 1000) == 0


def test_bytes_like_keys_and_values() -> None:
    data = encode([Like(1, bytearray(b"key"), memoryview(b"value"), [("h", b"x")])])  # type: ignore[arg-type]
    assert list(next(decode(data))) == [BatchRecord(0, 1, b"key", b"value", (("h", b"x"),))]


@given(timestamps, timestamps, payloads, payloads, headers)
def test_the_estimate_is_never_too_small(
    first: int, timestamp: int, key: bytes | None, value: bytes | None, given_headers: tuple[Header, ...]
) -> None:
    builder = BatchBuilder()
    builder.append(first, None, None)
    before = builder.size
    builder.append(timestamp, key, value, given_headers)
    assert builder.size - before <= estimate_size(key, value, given_headers)


def test_producer_state_can_be_given_at_the_end() -> None:
    builder = BatchBuilder(is_transactional=True)
    builder.append(1, None, b"v")
    (batch,) = decode(builder.close(producer_id=9, producer_epoch=2, base_sequence=40, base_offset=100))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, 40)
    assert (batch.base_offset, batch.is_transactional, batch.is_control) == (100, True, False)


def test_producer_state_from_the_start_is_kept() -> None:
    builder = BatchBuilder(producer_id=9, producer_epoch=2, base_sequence=40)
    builder.append(1, None, b"v")
    (batch,) = decode(builder.close(base_sequence=0))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, 0)


@pytest.mark.parametrize("timestamp", [-2, 2**63])
def test_impossible_timestamps_are_refused(timestamp: int) -> None:
    builder = BatchBuilder()
    with pytest.raises(InvalidRecordError, match=str(timestamp)):
        builder.append(timestamp, None, None)
    builder.append(5, None, None)
    with pytest.raises(InvalidRecordError, match=str(timestamp)):
        builder.append(timestamp, None, None)
    assert builder.count == 1
    assert [record.timestamp for record in next(decode(builder.close()))] == [5]


def test_a_negative_timestamp_close_to_the_base_is_refused() -> None:
    """The delta is small, so it must not slip through the quick path for small deltas."""
    builder = BatchBuilder()
    builder.append(-1, None, None)
    with pytest.raises(InvalidRecordError, match="-2"):
        builder.append(-2, None, None)
    builder = BatchBuilder()
    builder.append(2**63 - 1, None, None)
    with pytest.raises(InvalidRecordError, match=str(2**63)):
        builder.append(2**63, None, None)


def test_the_one_timestamp_too_far_from_the_first_is_refused() -> None:
    builder = BatchBuilder()
    builder.append(-1, None, None)
    assert builder.append(2**63 - 2, None, None) == 1
    with pytest.raises(InvalidRecordError):
        builder.append(2**63 - 1, None, None)


@given(record_lists(), st.integers(0, 2**63 - 1), st.sampled_from(list(Compression)))
def test_a_delete_horizon_leaves_the_records_as_they_are(
    rows: tuple[int, list[BatchRecord]], horizon: int, codec: Compression
) -> None:
    base_offset, records = rows
    builder = BatchBuilder(delete_horizon=horizon, compression=codec)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    (batch,) = decode(builder.close(base_offset=base_offset))
    assert batch.delete_horizon == batch.base_timestamp == horizon
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert list(batch) == records


@pytest.mark.parametrize("timestamp", [-2, 2**63])
@pytest.mark.parametrize("horizon", [0, 2**63 - 1])
def test_impossible_timestamps_are_refused_beside_a_delete_horizon(horizon: int, timestamp: int) -> None:
    builder = BatchBuilder(delete_horizon=horizon)
    with pytest.raises(InvalidRecordError, match=str(timestamp)):
        builder.append(timestamp, None, None)
    assert builder.count == 0


@pytest.mark.parametrize(("key", "value"), [("text", b""), (b"", "text"), (3, b"")])
def test_a_wrong_type_raises_and_leaves_the_batch_whole(key: Any, value: Any) -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"good")
    with pytest.raises(TypeError):
        builder.append(2, key, value)
    assert builder.append(3, None, b"good") == 1
    assert [record.timestamp for record in next(decode(builder.close()))] == [1, 3]


def test_a_closed_builder_takes_no_more() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"v")
    builder.close()
    assert builder.append(2, None, b"v") is None
    with pytest.raises(InvalidRecordError, match="closed"):
        builder.close()


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="no records"):
        BatchBuilder().close()
    with pytest.raises(InvalidRecordError, match="no records"):
        encode([])


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"magic=3: a BatchBuilder writes magic 2, a LegacyBuilder 0 and 1"):
        BatchBuilder(magic=3)
    with pytest.raises(ValueError, match=r"magic=3: encode\(\) writes 0, 1 and 2"):
        encode(simple_records(1), magic=3)
    with pytest.raises(UnsupportedCompressionError, match=r"unknown compression 3; valid are none, gzip"):
        BatchBuilder(compression=3)  # type: ignore[arg-type]
    for horizon in (-1, 2**63):
        with pytest.raises(ValueError, match=f"delete horizon {horizon}"):
            BatchBuilder(delete_horizon=horizon)
    with pytest.raises(UnsupportedCompressionError, match="none, gzip"):
        encode(simple_records(1), compression="rar")


@pytest.mark.parametrize("limit", [-1, "100"])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    for builder in (partial(BatchBuilder), partial(LegacyBuilder, 1)):
        with pytest.raises(ValueError, match=f"max_bytes={limit!r}: expected a number of bytes, or None"):
            builder(max_bytes=limit)


@pytest.mark.parametrize("builder", [BatchBuilder(compression="gzip"), LegacyBuilder(1, compression="gzip")])
def test_builders_take_the_name_of_a_codec(builder: BatchBuilder | LegacyBuilder) -> None:
    builder.append(1, None, b"v" * 100)
    (batch,) = decode(builder.close())
    assert batch.compression is Compression.GZIP


@pytest.mark.parametrize("wrong", [(0, 1, None, b"value"), b"value", None])
def test_encode_says_what_a_record_lacks(wrong: Any) -> None:
    lacks = f"record 1 is of type {type(wrong).__name__}, without the attribute 'timestamp'; pass .*BatchRecord"
    with pytest.raises(InvalidRecordError, match=lacks):
        encode([*simple_records(1), wrong])


def test_encode_keeps_the_error_of_a_generator() -> None:
    def failing() -> Iterator[BatchRecord]:
        yield from simple_records(1)
        object().nothing  # type: ignore[attr-defined]  # noqa: B018

    with pytest.raises(AttributeError, match="nothing"):
        encode(failing())


@given(record_lists(max_size=10), st.sampled_from([Compression.NONE, Compression.GZIP, Compression.LZ4]))
def test_aiokafka_reads_what_is_written(rows: tuple[int, list[BatchRecord]], codec: Compression) -> None:
    theirs = pytest.importorskip("aiokafka.record.default_records")
    base_offset, records = rows
    batch = theirs.DefaultRecordBatch(encode(records, base_offset=base_offset, compression=codec))
    assert batch.validate_crc()
    read = [BatchRecord(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == records


@given(record_lists(max_size=10))
def test_aiokafka_writes_the_same_bytes(rows: tuple[int, list[BatchRecord]]) -> None:
    """Timestamp -1 is left out, because the other implementation takes the next record's as the base then."""
    theirs = pytest.importorskip("aiokafka.record.default_records")
    records = [Like(max(r.timestamp, 0), r.key, r.value, list(r.headers)) for r in rows[1]]
    builder = theirs.DefaultRecordBatchBuilder(2, 0, 0, 7, 3, 11, 1 << 30)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, record.headers)
    assert encode(records, producer_id=7, producer_epoch=3, base_sequence=11) == builder.build()


@dataclass
class Like:
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] = field(default_factory=list)
