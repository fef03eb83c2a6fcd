"""The hash of keys, in both forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.accelerator.forms import each_form
from tests.producer.test_partitioner import VECTORS, murmur2_by_the_book

Hash = Callable[[Any], int]

PARTITIONER = "aiokproto.producer.partitioner"
each_murmur2 = pytest.mark.parametrize("murmur2", each_form(PARTITIONER, "murmur2"))
each_key_hash = pytest.mark.parametrize("key_hash", each_form(PARTITIONER, "key_hash"))


@each_murmur2
@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_murmur2_computes_the_same_as_java(murmur2: Hash, key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@each_murmur2
@given(data=st.binary(max_size=400))
def test_murmur2_of_any_bytes(murmur2: Hash, data: bytes) -> None:
    assert murmur2(data) == murmur2_by_the_book(data)


@each_key_hash
@given(data=st.binary(max_size=400))
def test_the_hash_of_any_key(key_hash: Hash, data: bytes) -> None:
    assert key_hash(data) == murmur2_by_the_book(data) & 0x7FFFFFFF


@each_murmur2
@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_murmur2_of_other_kinds_of_bytes(murmur2: Hash, kind: Callable[[bytes], object]) -> None:
    assert murmur2(kind(b"foobar")) == VECTORS[b"foobar"]


@each_murmur2
@pytest.mark.parametrize("data", [None, "21", 21])
def test_murmur2_of_what_is_not_bytes(murmur2: Hash, data: object) -> None:
    with pytest.raises(TypeError):
        murmur2(data)
