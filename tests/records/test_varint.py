"""Variable-length integers: known encodings, round trips, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import DecodeError
from aiokproto.records import varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    assert varint.encode(value).hex() == encoded
    assert varint.read_varlong(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_the_table_is_indexed_by_the_number_itself() -> None:
    for value in range(-64, varint.SHORT):
        assert varint.read_varint(varint.VARINTS[value], 0) == (value, len(varint.VARINTS[value]))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varlong_round_trip_leaves_what_follows(value: int, rest: bytes) -> None:
    encoded = varint.encode(value)
    assert varint.read_varlong(encoded + rest, 0) == (value, len(encoded))
    assert varint.size(value) == len(encoded)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_round_trip(value: int) -> None:
    encoded = varint.encode_unsigned(value)
    assert varint.read_unsigned(encoded, 0) == (value, len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_truncation_raises(value: int) -> None:
    encoded = varint.encode(value)
    for length in range(len(encoded)):
        with pytest.raises(DecodeError, match="bytes end"):
            varint.read_varlong(encoded[:length], 0)


@pytest.mark.parametrize("encoded", ["ffffffff1f", "808080808001", "ffffffffff01"])
def test_varint_of_more_than_32_bits_raises(encoded: str) -> None:
    with pytest.raises(DecodeError, match="more than 32 bits"):
        varint.read_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "8080808080808080808001"])
def test_varlong_of_more_than_64_bits_raises(encoded: str) -> None:
    with pytest.raises(DecodeError, match="more than 64 bits"):
        varint.read_varlong(bytes.fromhex(encoded), 0)
