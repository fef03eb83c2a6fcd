"""Bytes that lie: every length and count of every message set to extremes, and frames mutated at random."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.codec.explain import _Walker
from aiokproto.codec.frames import decode_api_versions, decode_request_header, decode_response, response_correlation_id
from aiokproto.codec.messages.api_versions import ApiVersionsResponse
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokproto.codec.registry import api_keys, response
from aiokproto.codec.schema import Message
from aiokproto.codec.steps import finish
from aiokproto.codec.wire import write_uvarint
from aiokproto.errors import DecodeError, EncodeError
from tests.codec.fill import all_messages, all_versions, fill

MAX_32 = 0xFFFFFFFF


class Length(NamedTuple):
    """A length or count in a message's bytes."""

    start: int
    end: int
    path: str
    compact: bool


class _Finder(_Walker):
    """Notes the positions of lengths while it follows the schema."""

    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        super().__init__(memoryview(data), 0, version, flexible, 1 << 40)
        self.found: list[Length] = []

    def uvarint(self, path: str) -> int:
        start = self.pos
        value = super().uvarint(path)
        self.found.append(Length(start, self.pos, path, True))
        return value

    def length(self, path: str, compact: bool, *, short: bool, nullable: bool) -> int:
        start = self.pos
        value = super().length(path, compact, short=short, nullable=nullable)
        if not compact:
            self.found.append(Length(start, start + (2 if short else 4), path, False))
        return value


def lengths(message: type[Message], data: bytes, version: int) -> list[Length]:
    """Return every length, count, tag and size of a tag in ``data``."""
    finder = _Finder(data, version, version in message.flexible)
    finish(finder.struct(message, ""))
    assert finder.pos == len(data)
    return finder.found


def lies(data: bytes, at: Length) -> Iterator[tuple[str, bytes]]:
    """Yield what the length could claim: a name for it, and the whole message with it."""
    left = len(data) - at.end
    if at.compact:
        values = {"null": 0, "empty": 1, "one more": left + 2, "double": 2 * left + 3, "max": MAX_32}
        for name, value in values.items():
            out = bytearray(data[: at.start])
            write_uvarint(out, value)
            yield name, bytes(out) + data[at.end :]
        yield "too long", data[: at.start] + b"\xff" * 5 + data[at.end :]
        yield "endless", data[: at.start] + b"\x80" * (left + 6)
        return
    size = at.end - at.start
    most = (1 << 8 * size - 1) - 1
    for name, value in {"-2": -2, "null": -1, "empty": 0, "one more": left + 1, "max": most, "min": -most - 1}.items():
        if value <= most:
            yield name, data[: at.start] + value.to_bytes(size, "big", signed=True) + data[at.end :]


def refusal(message: type[Message], data: bytes, version: int) -> str:
    """Return the text of the error that decoding raises; empty if it raises none."""
    try:
        message.decode(data, version)
    except DecodeError as error:
        return str(error)
    return ""


def some_versions(message: type[Message]) -> set[int]:
    """Return the oldest and newest version, and those next to a change in the form of lengths."""
    low, high = message.versions
    return {low, high} | {v for v in (message.flexible.lowest - 1, message.flexible.lowest) if low <= v <= high}


@pytest.mark.parametrize("message", all_messages(), ids=lambda m: m.__name__)
def test_a_wrong_length_is_refused_with_its_position(message: type[Message], tally: Counter[str]) -> None:
    """An error names the field itself if its value can't be true; otherwise some field, or the bytes left over."""
    for version in some_versions(message):
        data = fill(message, version, seed=11).encode(version)
        title = re.escape(f"{message.__name__} v{version}: ")
        for at in lengths(message, data, version):
            path = re.escape(at.path.lstrip("."))
            for lie, mutant in lies(data, at):
                tally["lengths and counts that lie"] += 1
                text = refusal(message, mutant, version)
                assert not text or re.match(rf"{title}([^:]+ at byte \d+ of \d+: |\d+ bytes? left over)", text), text
                # Another tag number, or another size of a tag, can be just as valid.
                impossible = () if path.endswith("tags") else ("-2", "min", "one more", "double", "max")
                if lie in (*impossible, "too long", "endless"):
                    assert re.match(rf"{title}{path} at byte ", text), (lie, at, text)


class _Edit(NamedTuple):
    where: float
    cut: int
    put: bytes


edits = st.builds(
    _Edit,
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 6),
    st.one_of(
        st.binary(max_size=6),
        st.sampled_from([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff", b"\x80\x80\x01", b"\0"]),
    ),
)
MESSAGE_VERSIONS = all_versions()


@given(
    chosen=st.sampled_from(MESSAGE_VERSIONS),
    seed=st.integers(0, 9),
    changes=st.lists(edits, min_size=1, max_size=5),
)
def test_a_mutated_frame_is_refused_with_a_field_name_or_valid(
    tally: Counter[str], chosen: tuple[type[Message], int], seed: int, changes: list[_Edit]
) -> None:
    """Whatever decodes can be encoded again, and then decodes to the same."""
    tally["mutated messages"] += 1
    message, version = chosen
    data = fill(message, version, seed).encode(version)
    for where, cut, put in changes:
        at = int(where * len(data))
        data = data[:at] + put + data[at + cut :]
    try:
        decoded = message.decode(data, version)
    except DecodeError as error:
        text = str(error)
        assert text.startswith(f"{message.__name__} v{version}: ")
        assert "cannot be decoded" not in text
        return
    again = decoded.encode(version)
    assert message.decode(again, version).encode(version) == again


@given(st.binary(max_size=64))
def test_any_bytes_as_a_frame_raise_nothing_but_decode_errors(frame: bytes) -> None:
    calls: list[tuple[Any, ...]] = [(decode_request_header,), (response_correlation_id,)]
    calls += [(decode_response, response(key), response(key).versions.highest) for key in api_keys()]
    calls += [(decode_api_versions, version) for version in range(5)]
    for function, *arguments in calls:
        try:
            function(frame, *arguments)
        except DecodeError:
            pass


@pytest.mark.parametrize("version", range(5))
def test_a_refusal_of_api_versions_is_decoded_in_version_0(version: int) -> None:
    """KIP-511: a broker that does not support the request's version responds in version 0, with its versions."""
    body = b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\3"
    answer = decode_api_versions(b"\0\0\0\7" + body, version)
    assert answer.error_code == 35
    (api,) = answer.api_keys
    assert (api.api_key, api.min_version, api.max_version) == (18, 0, 3)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("error_code", [0, 58])
def test_other_api_versions_responses_have_the_requested_version(version: int, error_code: int) -> None:
    made = ApiVersionsResponse(error_code=error_code, api_keys=[])
    assert decode_api_versions(b"\0\0\0\7" + made.encode(version), version) == made


def test_a_string_longer_than_the_protocol_allows_is_refused() -> None:
    """Compact lengths could be greater."""
    body = bytearray()
    write_uvarint(body, 2)
    body += bytes(16)
    write_uvarint(body, 0x8000 + 1)
    body += b"a" * 0x8000 + bytes(10)
    with pytest.raises(DecodeError, match=r"topics\[0\]\.name .* a string of 32768 bytes; the protocol allows 32767"):
        MetadataRequest.decode(body, 12)


def test_a_str_is_not_a_list_of_strings() -> None:
    with pytest.raises(EncodeError, match="topic_names: expected a list, got str 'flights'"):
        DeleteTopicsRequest(topic_names="flights", timeout_ms=1).encode(1)  # type: ignore[arg-type]


def test_counts_beyond_127_take_the_longer_way_round() -> None:
    """Counts and lengths of one byte are packed with what precedes them; longer ones are not."""
    for count in (0, 64, 65, 126, 127, 128, 16_383, 16_384, 70_000):
        nodes = list(range(count))
        partition = MetadataResponsePartition(
            error_code=0, partition_index=1, leader_id=2, replica_nodes=nodes, isr_nodes=nodes
        )
        topic = MetadataResponseTopic(
            error_code=0, name="x" * min(count, 0x7FFF), partitions=[partition] * (count if count <= 128 else 1)
        )
        made = MetadataResponse(brokers=[], topics=[topic])
        for version in (1, 12):
            assert MetadataResponse.decode(made.encode(version), version) == made
