"""The log format of Kafka 0.7, written by hand as its documentation has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import MessageV07, decode_v07
from tests.records.legacy_sets import v07, v07_set

payloads = st.lists(st.binary(max_size=30), min_size=1, max_size=5)


def test_known_bytes() -> None:
    """One message of either magic, as the format's description counts them out."""
    data = bytes.fromhex("0000000800352441c2616263") + bytes.fromhex("000000090100352441c2616263")
    assert list(decode_v07(data)) == [MessageV07(0, 12, b"abc"), MessageV07(12, 25, b"abc")]


@given(payloads, st.integers(0, 2**40), st.sampled_from([0, 1]))
def test_offsets_are_positions_of_bytes(contents: list[bytes], base_offset: int, magic: int) -> None:
    position = base_offset
    for content, found in zip(
        contents,
        decode_v07(b"".join(v07(content, magic=magic) for content in contents), base_offset),
        strict=True,
    ):
        assert found == MessageV07(position, position + 9 + magic + len(content), content)
        position = found.next_offset


@given(payloads, st.sampled_from([1, 2]), st.integers(0, 3))
def test_compressed_messages_share_the_place_of_the_outermost(contents: list[bytes], codec: int, more: int) -> None:
    data = v07_set(*map(v07, contents), codec=codec)
    for _ in range(more):
        data = v07_set(data, codec=1)
    found = list(decode_v07(v07(b"before") + data, 100))
    assert [message.payload for message in found] == [b"before", *contents]
    assert {(message.offset, message.next_offset) for message in found[1:]} == {(116, 116 + len(data))}


@given(payloads, st.data())
def test_a_log_cut_anywhere_gives_its_whole_messages(contents: list[bytes], data: st.DataObject) -> None:
    stored = [v07(content) for content in contents]
    cut = data.draw(st.integers(0, len(b"".join(stored))))
    found = list(decode_v07(b"".join(stored)[:cut]))
    expected = 0
    while expected < len(stored) and len(b"".join(stored[: expected + 1])) <= cut:
        expected += 1
    assert [message.payload for message in found] == contents[:expected]


@given(
    payloads,
    st.sampled_from([0, 1, 2]),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=5),
    st.booleans(),
)
def test_damage_raises_only_our_errors(
    contents: list[bytes], codec: int, changes: list[tuple[int, int]], check_crc: bool
) -> None:
    inside = [v07(content) for content in contents]
    damaged = bytearray(v07_set(*inside, codec=codec) if codec else b"".join(inside))
    for position, byte in changes:
        damaged[position % len(damaged)] = byte
    try:
        list(decode_v07(damaged, check_crc=check_crc, max_decompressed=1 << 20))
    except KafkaError:
        pass


@given(st.binary(max_size=60), st.integers(0, 255))
def test_any_payload_raises_only_our_errors(payload: bytes, attributes: int) -> None:
    for data in (v07(payload, attributes=attributes), v07_set(payload)):
        try:
            list(decode_v07(data, max_decompressed=1 << 20))
        except KafkaError:
            pass


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (v07(b"a", crc=1), "checksum"),
        (b"\0\0\0\x05\x01" + bytes(5), "length 5"),
        (b"\0\0\0\x20\x02" + bytes(40), "magic 2"),
        (b"\xff\xff\xff\xff\x00" + bytes(5), "length -1"),
        (v07(b"a", attributes=3), "codec 3"),
        (v07_set(v07(b"a", crc=1)), "checksum"),
        (v07_set(v07(b"a")[:-1]), "end within"),
        (v07_set(b"\0\0"), "end within"),
    ],
)
def test_damage_names_itself_and_the_offset(data: bytes, why: str) -> None:
    found = decode_v07(v07(b"good") + data, 1000)
    assert next(found).payload == b"good"
    with pytest.raises(CorruptRecordError, match=f"message at offset 1014: .*{why}"):
        next(found)


def test_checksums_can_be_passed_over() -> None:
    data = v07(b"a", crc=1) + v07_set(v07(b"b", crc=2))
    assert [message.payload for message in decode_v07(data, check_crc=False)] == [b"a", b"b"]


def test_endless_nesting_is_refused() -> None:
    data = v07(b"a")
    for _ in range(20):
        data = v07_set(data)
    with pytest.raises(CorruptRecordError, match="nested"):
        list(decode_v07(data))


def test_the_decompression_limit_is_for_all_nested_sets_together() -> None:
    one = v07_set(v07(b"x" * 50_000))
    with pytest.raises(CorruptRecordError, match="more than the limit"):
        list(decode_v07(v07_set(*[one] * 4), max_decompressed=150_000))
    assert len(list(decode_v07(v07_set(*[one] * 4), max_decompressed=210_000))) == 4
