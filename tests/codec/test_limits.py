"""The most memory that decoding takes: measured on the most expensive bytes, and bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from aiokproto.codec import limits
from aiokproto.codec.compiler import compile_careful_decoder
from aiokproto.codec.frames import decode_response, encode_response
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.list_groups import ListedGroup, ListGroupsResponse
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from aiokproto.codec.schema import FieldSpec, Message, Struct
from aiokproto.codec.steps import finish
from aiokproto.codec.wire import ZERO_UUID, Limits
from aiokproto.errors import DecodeError
from tests.codec.fill import all_messages, all_versions, fill

BASE = 4096
"""What a decoder takes before the first item: the message, its unpackers, a traceback."""

DEAREST = {"int8": -100, "int16": -30_000, "int32": -(2**31), "int64": -(2**63), "uint16": 60_000, "uint32": 2**32 - 1}
"""Numbers for which Python has no cached object."""


def dear(struct: type[Struct], version: int) -> Any:
    """Return an instance of few bytes and many objects."""
    made = struct()
    for spec in struct.fields():
        if version in spec.versions and spec.tag is None and not spec.array:
            if spec.kind in DEAREST:
                setattr(made, spec.name, DEAREST[spec.kind])
            elif spec.kind == "uuid":
                setattr(made, spec.name, b"\1" * 16)
            elif version in spec.nullable:
                setattr(made, spec.name, None)
            elif spec.struct is not None:
                setattr(made, spec.name, dear(spec.struct, version))
    return made


def swollen(struct: type[Struct], version: int, flexible: bool, count: int) -> Iterator[Any]:
    """Yield instances with ``count`` items in one array each, for every array inside; and with unknown tags."""
    for spec in struct.fields():
        if version not in spec.versions:
            continue
        if spec.array:
            for items in crowds(spec, version, flexible, count):
                yield with_field(struct, version, spec, items)
        if spec.struct is not None:
            for inner in swollen(spec.struct, version, flexible, count):
                yield with_field(struct, version, spec, [inner] if spec.array else inner)
    if flexible:
        made = dear(struct, version)
        known = {spec.tag for spec in struct.fields()}
        made.unknown_tags = {tag: b"ab" for tag in range(count) if tag not in known}
        yield made


def crowds(spec: FieldSpec, version: int, flexible: bool, count: int) -> Iterator[list[Any]]:
    """Return many items for an array."""
    if spec.struct is None:
        small: dict[str, Any] = {"string": "", "bytes": b"", "uuid": ZERO_UUID}
        for each in (DEAREST, {"string": "é", "bytes": b"ab"}):
            yield [each.get(spec.kind, small.get(spec.kind, 0))] * count
        return
    yield [dear(spec.struct, version)] * count
    if flexible:
        tagged = dear(spec.struct, version)
        tagged.unknown_tags = {9999: b"" if count % 2 else b"ab"}
        yield [tagged] * count


def with_field(struct: type[Struct], version: int, spec: FieldSpec, value: Any) -> Any:
    made = dear(struct, version)
    setattr(made, spec.name, value)
    return made


def peak(message: type[Message], data: bytes, version: int, allowed: Limits) -> int:
    """Return the most memory that decoding takes, whether it succeeds or not."""
    tracemalloc.start()
    try:
        decoded = message.decode(data, version, limits=allowed)
    except DecodeError as error:
        assert "over the limit" in str(error) or "above the limit" in str(error)  # noqa: PT017
    else:
        del decoded
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most


@pytest.mark.parametrize("message", all_messages(), ids=lambda m: m.__name__)
def test_decoding_takes_no_more_memory_than_documented(message: type[Message]) -> None:
    version = message.versions.highest
    message.decode(message().encode(version), version)  # compiled before anything is measured
    worst = limits.worst(message, version)
    for made in swollen(message, version, version in message.flexible, 200):
        data = made.encode(version)
        assert peak(message, data, version, Limits()) <= worst * len(data) + BASE


def test_the_most_expensive_message_is_as_documented() -> None:
    """The figures of the documentation."""
    worst = {(message.__name__, version): limits.worst(message, version) for message, version in all_versions()}
    assert max(worst.values()) == worst["ListGroupsResponse", 3] == 189
    assert worst["MetadataResponse", 12] == 96
    assert worst["MetadataResponse", 8] < 50


@pytest.mark.parametrize("message", [ListGroupsResponse, MetadataRequest, MetadataResponse, FetchRequest])
@pytest.mark.parametrize("memory", [50_000, 500_000])
def test_memory_stays_below_the_limit_that_is_set(message: type[Message], memory: int) -> None:
    """The message may fit in or not; contents come on top."""
    version = message.versions.highest
    refused = 0
    for count in (20, 1000, 10_000):
        for made in swollen(message, version, True, count):
            data = made.encode(version)
            try:
                message.decode(data, version, limits=Limits(memory=memory))
            except DecodeError:
                refused += 1
            assert peak(message, data, version, Limits(memory=memory)) <= memory + limits.CONTENT * len(data) + BASE
    assert refused


@pytest.mark.parametrize("message", all_messages(), ids=lambda m: m.__name__)
def test_a_careful_decoder_reads_the_same(message: type[Message]) -> None:
    for version in range(message.versions.lowest, message.versions.highest + 1):
        made = fill(message, version, seed=4)
        data = made.encode(version)
        assert finish(compile_careful_decoder(message, version)(data, 0, 1 << 40)) == (made, len(data))


@pytest.mark.parametrize("message", all_messages(), ids=lambda m: m.__name__)
def test_the_error_of_a_memory_limit_names_the_field(message: type[Message]) -> None:
    """Counting and explaining agree about costs, item by item."""
    for version in {message.versions.lowest, message.versions.highest}:
        data = fill(message, version, seed=5).encode(version)
        for memory in range(0, 8000, 391):
            try:
                message.decode(data, version, limits=Limits(memory=memory))
            except DecodeError as error:
                assert "memory taken above the limit" in str(error)  # noqa: PT017


def test_the_error_of_a_limit() -> None:
    groups = [ListedGroup(group_id="g", protocol_type="consumer")] * 1000
    data = ListGroupsResponse(error_code=0, groups=groups).encode(3)
    assert len(ListGroupsResponse.decode(data, 3, limits=Limits(memory=1_000_000)).groups) == 1000
    with pytest.raises(
        DecodeError, match=r"ListGroupsResponse v3: groups at byte 8 of \d+: 1000 items would bring .* 50000 bytes"
    ):
        ListGroupsResponse.decode(data, 3, limits=Limits(memory=50_000))
    with pytest.raises(DecodeError, match=r"ListGroupsResponse v3: 12009 bytes, over the limit of 12008"):
        ListGroupsResponse.decode(data, 3, limits=Limits(size=12_008))
    assert ListGroupsResponse.decode(data, 3, limits=Limits(size=12_009)).groups == groups


def test_unknown_tags_are_limited() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    request.topics[0].unknown_tags = dict.fromkeys(range(5000), b"")  # type: ignore[index]
    data = request.encode(12)
    with pytest.raises(DecodeError, match=r"topics\[0\]\.tags at byte 21 of \d+: 5000 tagged fields would bring"):
        MetadataRequest.decode(data, 12, limits=Limits(memory=100_000))


def test_frames_take_limits() -> None:
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=[])
    frame = encode_response(MetadataResponse(brokers=[], topics=[topic] * 100), 12, 1)[4:]
    assert len(decode_response(frame, MetadataResponse, 12).topics) == 100
    with pytest.raises(DecodeError, match="MetadataResponse v12: topics at byte"):
        decode_response(frame, MetadataResponse, 12, limits=Limits(memory=10_000))


def test_no_schema_contains_itself() -> None:
    """This is what makes depth, and memory per byte, a property of the schema."""

    def depth(struct: type[Struct], above: tuple[type[Struct], ...]) -> int:
        assert struct not in above
        inner = [depth(spec.struct, (*above, struct)) for spec in struct.fields() if spec.struct is not None]
        return 1 + max(inner, default=0)

    assert max(depth(message, ()) for message in all_messages()) == 6
