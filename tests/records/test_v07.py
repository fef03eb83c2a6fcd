"""The log format of Kafka 0.7, written by hand according to its documentation."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import MessageV07, decode_v07
from tests.records.legacy_sets import v07, v07_set

payloads = st.lists(st.binary(max_size=30), min_size=1, max_size=5)


MAGIC_0 = bytes.fromhex("00000008 00 352441c2 616263")
MAGIC_1 = bytes.fromhex("00000009 01 00 352441c2 616263")
SNAPPY = bytes.fromhex(
    "00000029 01 02 79846769"
    "82534e4150505900 00000001 00000001"  # the frame that Java's library puts around blocks
    "0000000f 0d 30"  # a block of 15 bytes: 13 when unpacked, one literal of 13
    "00000009 01 00 352441c2 616263"
)
GZIP = bytes.fromhex(
    "0000002a 01 01 d03187f5"
    "1f8b0800000000000000 01 0d00 f2ff"  # a stored block of 13 bytes
    "00000009 01 00 352441c2 616263"
    "7a7bcef1 0d000000"
)
NESTED = bytes.fromhex(
    "00000056 01 01 6145ce96"
    "1f8b0800000000000000 01 3900 c6ff"  # a stored block of 57 bytes: the two next messages
    f"{SNAPPY.hex()} {MAGIC_0.hex()}"
    "e30598d7 39000000"
)


@pytest.mark.parametrize(
    ("data", "payloads"),
    [
        (MAGIC_0, [b"abc"]),
        (MAGIC_1, [b"abc"]),
        (SNAPPY, [b"abc"]),
        (GZIP, [b"abc"]),
        (NESTED, [b"abc", b"abc"]),
        (bytes.fromhex("00000005 00 00000000"), [b""]),
        (bytes.fromhex("00000006 01 00 00000000"), [b""]),
    ],
    ids=["magic 0", "magic 1", "snappy", "gzip", "snappy in gzip", "empty, magic 0", "empty, magic 1"],
)
@pytest.mark.parametrize("before", [b"", MAGIC_0])
def test_known_bytes(before: bytes, data: bytes, payloads: list[bytes]) -> None:
    """Return each kind of message, byte by byte as the format's description has it; and the same without its end."""
    start, end = 50 + len(before), 50 + len(before + data)
    first = [MessageV07(50, start, b"abc")] if before else []
    assert list(decode_v07(before + data, 50)) == first + [MessageV07(start, end, payload) for payload in payloads]
    for size in range(len(data)):
        assert list(decode_v07(before + data[:size], 50)) == first


@pytest.mark.parametrize("data", [MAGIC_0, MAGIC_1, SNAPPY, GZIP, NESTED])
def test_every_changed_bit_of_the_payload_is_found(data: bytes) -> None:
    """The outermost checksum finds it, and the error has the position in the log at which the message starts."""
    payload_at = 4 + (6 if data[4] else 5)
    for bit in range(payload_at * 8, len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecordError, match="message at offset 1012: checksum is"):
            list(decode_v07(MAGIC_0 + damaged, 1000))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("length", [-(2**31), -1, 0, 4])
def test_lengths_that_no_message_has_are_damage(length: int, magic: int) -> None:
    data = MAGIC_0 + struct.pack(">iB", length, magic) + bytes(40)
    with pytest.raises(CorruptRecordError, match=f"message at offset 1012: length {length} is too small"):
        list(decode_v07(data, 1000))
    with pytest.raises(CorruptRecordError, match=f"message at offset 1000: .*inside at byte 12: length {length}"):
        list(decode_v07(v07_set(data), 1000))


def test_a_length_beyond_the_end_is_a_cut_message_in_a_log_and_damage_inside_another() -> None:
    """A log may still grow, but compressed data is complete. Neither allocates memory by a length alone."""
    data = MAGIC_0 + struct.pack(">iB", 2**31 - 1, 1) + bytes(40)
    assert [message.payload for message in decode_v07(data)] == [b"abc"]
    with pytest.raises(
        CorruptRecordError, match=r"message at offset 0: .*inside at byte 12: .*end within one, at byte 57"
    ):
        list(decode_v07(v07_set(data)))


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
        (b"\0\0\0\x20\x02" + bytes(40), "magic is 2"),
        (b"\xff\xff\xff\xff\x00" + bytes(5), "length -1"),
        (v07(b"a", attributes=3), "codec is 3"),
        (v07_set(v07(b"a", crc=1)), "inside at byte 0: checksum"),
        (v07_set(v07(b"a"), v07(b"a", crc=1)), "inside at byte 11: checksum"),
        (v07_set(v07_set(v07(b"a"), v07(b"a", crc=1))), "inside at byte 11: checksum"),
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
