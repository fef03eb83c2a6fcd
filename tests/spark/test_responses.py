"""For any response of a broker, a range gets the records of its batches, or an error that names the offset."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.fetch import AbortedTransaction, PartitionData
from aiokproto.config import ClusterConfig
from aiokproto.errors import CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import BatchBuilder, Compression, decode
from aiokproto.records.control import encode_end_transaction
from aiokproto.records.isolation import visible
from aiokproto.records.patch import restamp, update_crc
from aiokproto.spark import reading
from aiokproto.spark.fetching import RangeFetcher
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import ReadOptions, parse_read_options
from aiokproto.types import Header
from tests.records.strategies import BASE_TIMESTAMP, codecs, headers, payloads

PRODUCERS = st.integers(0, 2)
CLUSTER = ClusterClient(ClusterConfig.parse({"bootstrap_servers": "127.0.0.1:1"}))
MILLIS_MAX = (2**63 - 1) // 1000
Row = tuple[int, int | None, bytes | None, bytes | None, tuple[Header, ...]]


@st.composite
def stored_batches(draw: st.DrawFn, base: int) -> bytes:
    """What a log may have at an offset: records with and without a transaction, a marker, or what compaction leaves."""
    kind = draw(st.sampled_from(["plain", "plain", "plain", "compressed", "transactional", "marker", "emptied"]))
    producer_id = draw(PRODUCERS)
    if kind == "marker":
        committed = draw(st.booleans())
        epochs = {"producer_epoch": 0, "coordinator_epoch": 0}
        marker = encode_end_transaction(
            committed=committed, producer_id=producer_id, timestamp=BASE_TIMESTAMP, base_offset=base, **epochs
        )
        return bytes(marker)
    transactional = kind == "transactional"
    builder = BatchBuilder(
        compression=draw(codecs) if kind != "plain" else Compression.NONE,
        producer_id=producer_id if transactional else -1,
        producer_epoch=0 if transactional else -1,
        is_transactional=transactional,
    )
    for row in draw(st.lists(st.tuples(payloads, payloads, headers), min_size=1, max_size=8)):
        builder.append(BASE_TIMESTAMP, *row)
    batch = builder.close(base_offset=base)
    if kind == "emptied":
        del batch[61:]
        struct.pack_into(">i", batch, 8, 61 - 12)
        struct.pack_into(">i", batch, 57, 0)
        update_crc(batch)
    if draw(st.booleans()):
        restamp(batch, 0, BASE_TIMESTAMP + 7)
    return bytes(batch)


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, int]:
    """A record set, and the offset after it."""
    data, offset = b"", draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 8))):
        data += draw(stored_batches(offset))
        offset = list(decode(data))[-1].next_offset + draw(st.sampled_from([0, 0, 0, 3]))
    return data, offset


aborts = st.lists(st.builds(AbortedTransaction, producer_id=PRODUCERS, first_offset=st.integers(0, 40)), max_size=3)
damages = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 7)), min_size=1, max_size=2)
sizes = st.sampled_from([1, 50, 1000, 1 << 20])
counts = st.sampled_from([1, 3, 1000])


def options(*, check_crcs: bool) -> ReadOptions:
    given_options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.check.crcs": str(check_crcs).lower(),
    }
    return parse_read_options(given_options)


def read(
    data: bytes, wanted: OffsetRange, aborted: list[AbortedTransaction], size: int, most: int, *, check_crcs: bool
) -> list[Row]:
    settings = options(check_crcs=check_crcs)
    response = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=wanted.end,
        records=memoryview(data),
        aborted_transactions=aborted,
    )
    fetcher = RangeFetcher(CLUSTER, wanted, settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "PLAIN_BYTES", size)
        patch.setattr(reading, "MAX_RECORDS", most)
        tables = list(reading.to_arrow(fetcher._batches(response), wanted, settings))
    assert all(0 < len(table) <= most for table in tables)
    return [
        (
            row["offset"],
            micros,
            row["key"],
            row["value"],
            tuple((at["key"], at["value"]) for at in row["headers"] or ()),
        )
        for table in tables
        for row, micros in zip(
            table.drop_columns(["timestamp"]).to_pylist(), table["timestamp"].cast("int64").to_pylist(), strict=True
        )
    ]


def one_by_one(data: bytes, wanted: OffsetRange, aborted: list[AbortedTransaction], *, check_crcs: bool) -> list[Row]:
    return [
        (
            record.offset,
            record.timestamp * 1000 if abs(record.timestamp) <= MILLIS_MAX else None,
            record.key,
            record.value,
            record.headers,
        )
        for batch in visible(decode(data, check_crc=check_crcs), aborted)
        for record in batch
        if wanted.start <= record.offset < wanted.end
    ]


def in_order(data: bytearray) -> bool:
    """Whether the headers that can be read have offsets as a log has them."""
    bounds: list[int] = []
    with suppress(CorruptRecordError):
        for batch in decode(data, check_crc=False):
            bounds += [batch.base_offset, batch.next_offset]
    return bounds == sorted(bounds)


@given(responses(), st.integers(0, 40), st.integers(1, 60), aborts, sizes, counts)
def test_any_range_of_any_batches(
    response: tuple[bytes, int], start: int, length: int, aborted: list[AbortedTransaction], size: int, most: int
) -> None:
    data, _ = response
    wanted = OffsetRange("t", bytes(16), 0, start, start + length)
    expected = one_by_one(data, wanted, aborted, check_crcs=True)
    assert read(data, wanted, aborted, size, most, check_crcs=True) == expected


@given(responses(), damages, aborts, sizes, counts, st.booleans())
def test_damage_is_an_error_that_says_where_or_makes_no_difference(
    response: tuple[bytes, int],
    damage: list[tuple[int, int]],
    aborted: list[AbortedTransaction],
    size: int,
    most: int,
    check_crcs: bool,
) -> None:
    data, _ = response
    # It's beyond all offsets, so that the offsets in a damaged header don't end the range.
    wanted = OffsetRange("t", bytes(16), 0, 0, 2**63 - 1)
    damaged = bytearray(data)
    for place, bit in damage:
        damaged[place % len(damaged)] ^= 1 << bit
    # A transaction's start and end aren't defined otherwise.
    assume(in_order(damaged))
    try:
        expected = one_by_one(bytes(damaged), wanted, aborted, check_crcs=check_crcs)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        with pytest.raises(type(error), match=f"^reading {wanted}: .* at offset "):
            read(bytes(damaged), wanted, aborted, size, most, check_crcs=check_crcs)
    else:
        assert read(bytes(damaged), wanted, aborted, size, most, check_crcs=check_crcs) == expected
