"""Length, header and body together, and the exceptions among header versions."""

from __future__ import annotations

import pytest

from aiokproto.codec.frames import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    response_correlation_id,
)
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.controlled_shutdown import ControlledShutdownRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aiokproto.codec.registry import api_keys, request, response
from aiokproto.errors import DecodeError


def test_a_request_frame_in_bytes() -> None:
    frame = encode_request(MetadataRequest(topics=None), 1, 7, "me")
    assert frame == b"\x00\x00\x00\x10" + b"\x00\x03\x00\x01\x00\x00\x00\x07" + b"\x00\x02me" + b"\xff\xff\xff\xff"


@pytest.mark.parametrize("client_id", ["me", "", None])
@pytest.mark.parametrize("version", [0, 9, 13])
def test_request_there_and_back(version: int, client_id: str | None) -> None:
    message = MetadataRequest(topics=[])
    frame = encode_request(message, version, -5, client_id)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    got = decode_request_header(memoryview(frame)[4:])
    assert (got.api_key, got.api_version, got.correlation_id, got.client_id) == (3, version, -5, client_id)
    assert MetadataRequest.decode(got.body, version) == message


@pytest.mark.parametrize("version", [0, 9, 13])
def test_response_there_and_back(version: int) -> None:
    message = MetadataResponse(brokers=[], topics=[])
    frame = encode_response(message, version, 2**31 - 1)
    assert response_correlation_id(memoryview(frame)[4:]) == 2**31 - 1
    assert decode_response(memoryview(frame)[4:], MetadataResponse, version) == message
    with pytest.raises(DecodeError, match="1 byte left over"):
        decode_response(bytes(frame[4:]) + b"x", MetadataResponse, version)
    assert decode_response(bytes(frame[4:]) + b"x", MetadataResponse, version, exact=False) == message


def test_header_exceptions() -> None:
    """ApiVersions responses never have tags in the header; ControlledShutdown v0 has no client id."""
    assert ApiVersionsRequest.header_version(3) == 2
    assert ApiVersionsResponse.header_version(3) == 0
    assert ControlledShutdownRequest.header_version(0) == 0
    assert ControlledShutdownRequest.header_version(1) == 1


def test_header_versions_follow_flexibility_everywhere_else() -> None:
    for key in set(api_keys()) - {7, 18}:
        for version in range(request(key).versions.lowest, request(key).versions.highest + 1):
            flexible = version in request(key).flexible
            assert request(key).header_version(version) == 1 + flexible
            assert response(key).header_version(version) == int(flexible)


def test_short_and_unknown_frames_are_refused() -> None:
    with pytest.raises(DecodeError, match="7 bytes"):
        decode_request_header(bytes(7))
    with pytest.raises(DecodeError, match="ApiKey 999 is unknown"):
        decode_request_header(b"\x03\xe7" + bytes(8))
    with pytest.raises(DecodeError, match="3 bytes"):
        response_correlation_id(bytes(3))


def test_an_api_versions_request_of_an_unknown_version_has_a_readable_header() -> None:
    frame = b"\x00\x12\x00\x63\x00\x00\x00\x01\x00\x02me\x00" + b"anything"
    got = decode_request_header(frame)
    assert (got.api_version, got.correlation_id, got.client_id, bytes(got.body)) == (99, 1, "me", b"anything")


@pytest.mark.parametrize("size", [0, 3, 70_000])
def test_a_frame_that_still_has_its_length_is_reported(size: int) -> None:
    frame = encode_request(MetadataRequest(topics=[MetadataRequestTopic(name="n" * 1000)] * size), 1, 7, "me")
    with pytest.raises(DecodeError, match="still begins with its length"):
        decode_request_header(frame)


def test_a_frame_whose_key_and_version_are_its_length_is_a_frame() -> None:
    """This is Metadata v1 in 196613 bytes. Its first four bytes, read as a length, are right by chance."""
    size = (3 << 16 | 1) + 4
    frame = encode_request(MetadataRequest(topics=[]), 1, 7, "me")[4:]
    got = decode_request_header(frame + bytes(size - len(frame)))
    assert (got.api_key, got.api_version, got.correlation_id) == (3, 1, 7)
