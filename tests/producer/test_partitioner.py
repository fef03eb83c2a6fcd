"""Choosing partitions: the hash that all clients share, the sticky choice, and partitioners of users."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import InvalidRecordError
from aiokproto.producer.partitioner import check_partition, key_hash, murmur2

VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_murmur2_computes_the_same_as_java(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key]


def murmur2_by_the_book(data: bytes) -> int:
    """Compute the hash a byte at a time, as its author describes it."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    end = len(data) // 4 * 4
    for i in range(0, end, 4):
        k = data[i] | data[i + 1] << 8 | data[i + 2] << 16 | data[i + 3] << 24
        k = k * m & mask
        k ^= k >> 24
        k = k * m & mask
        h = h * m & mask
        h ^= k
    rest = len(data) - end
    if rest == 3:
        h ^= data[end + 2] << 16
    if rest >= 2:
        h ^= data[end + 1] << 8
    if rest >= 1:
        h ^= data[end]
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


@given(st.binary(max_size=200))
def test_murmur2_of_any_bytes(data: bytes) -> None:
    assert murmur2(data) == murmur2_by_the_book(data)
    assert key_hash(data) == murmur2(data) & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (3, "the partitioner's partition 3 does not exist: topic 'flights' has partitions 0 to 2"),
        (-1, "partition -1 does not exist"),
        (True, "must be an int, got True"),
        ("1", "must be an int, got '1'"),
        (None, "must be an int, got None"),
    ],
)
def test_a_partitioner_that_returns_no_valid_partition_is_refused(chosen: object, text: str) -> None:
    with pytest.raises(InvalidRecordError, match=text):
        check_partition(chosen, "flights", 3, "the partitioner's ")
