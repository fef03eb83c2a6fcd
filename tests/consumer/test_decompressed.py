"""Batches decompressed ahead have the same records; batches that cannot be decompressed are left to the reader."""

from __future__ import annotations

import gzip

import pytest

from aiokproto.errors import CorruptRecordError
from aiokproto.fetched.decompressed import DecompressedBatch, decompress_ahead
from aiokproto.records import BatchRecord, RecordBatch, decode, encode
from aiokproto.records.columns import to_columns
from tests.records.bombs import batch as batch_of

VALUES = [bytes([number]) * 5000 for number in range(20)]


def stored(codec: str, magic: int = 2) -> RecordBatch:
    written = [BatchRecord(offset, 1, None, value) for offset, value in enumerate(VALUES)]
    [batch] = decode(encode(written, magic=magic, compression=codec), check_crc=False)
    return batch


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_decompressed_batch_equals_the_compressed_one(codec: str) -> None:
    batch = stored(codec)
    [unpacked] = decompress_ahead([batch])
    assert isinstance(unpacked, DecompressedBatch)
    assert list(unpacked) == list(batch)
    assert to_columns([unpacked]).offset.tolist() == to_columns([batch]).offset.tolist()
    unpacked.validate()
    for name in ("raw", "base_offset", "next_offset", "attributes", "size_in_bytes", "source", "position"):
        assert getattr(unpacked, name) == getattr(batch, name)
    assert unpacked.body() is unpacked.body(), "decompressed once"
    [again] = decompress_ahead([unpacked])
    assert again is unpacked


@pytest.mark.parametrize(("codec", "magic"), [("none", 2), ("gzip", 1)])
def test_an_uncompressed_batch_is_left_unchanged(codec: str, magic: int) -> None:
    batch = stored(codec, magic)
    [same] = decompress_ahead([batch])
    assert same is batch


def test_a_batch_without_records_is_left_unchanged() -> None:
    """Neither form reads the bytes behind the header."""
    batch = RecordBatch(batch_of(gzip.compress(b"no records"), 0, 1))
    [same] = decompress_ahead([batch])
    assert list(same) == list(batch) == []


def test_batches_are_decompressed_ahead_up_to_a_limit() -> None:
    """If a batch does not fit, smaller ones after it may; it is decompressed when it is read."""
    size = len(stored("gzip").body())
    batches = [stored("gzip") for _ in range(3)]
    found = decompress_ahead(batches, most=2 * size)
    assert [isinstance(one, DecompressedBatch) for one in found] == [True, True, False]
    assert [[record.value for record in one] for one in found] == [VALUES] * 3


def test_damage_is_left_for_the_reader() -> None:
    data = bytearray(stored("gzip").raw)
    data[100:120] = bytes(20)
    batch = RecordBatch(bytes(data))
    [same] = decompress_ahead([batch])
    assert same is batch
    with pytest.raises(CorruptRecordError, match="gzip data"):
        list(same)
