"""Frames, the unit of a connection: a 4-byte length, a header, a body."""

from __future__ import annotations

from mmap import mmap
from struct import Struct as Packer
from typing import Any, NamedTuple, TypeVar

from aiokproto.accelerator import has_compiled_form
from aiokproto.codec.messages.api_versions import ApiVersionsResponse
from aiokproto.codec.messages.header import RequestHeader, ResponseHeader
from aiokproto.codec.registry import request as request_type
from aiokproto.codec.registry_table import APIS
from aiokproto.codec.schema import Buffer, Request, Response
from aiokproto.codec.steps import Steps
from aiokproto.codec.wire import DEFAULT_LIMITS, Limits
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError
from aiokproto.texts import counted

R = TypeVar("R", bound=Response)

_LENGTH = Packer(">i")
_KEY_VERSION_ID = Packer(">hhi")
_PRODUCE = 0
_LARGE = 1 << 20


class RequestFrame(NamedTuple):
    """A request as received. Its body isn't decoded yet."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: memoryview


def encode_request(request: Request[R], version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """Return a whole request frame: length, header, body.

    Raises:
        EncodeError: The version doesn't exist or can't carry the request. Names the field.
    """
    out = bytearray(4)
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    header.encode_into(out, request.header_version(version))
    request.encode_into(out, version)
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return out


def encode_response(response: Response, version: int, correlation_id: int) -> bytearray:
    """Return a whole response frame: length, header, body. Raises the same errors as :func:`encode_request`."""
    out = bytearray(4)
    ResponseHeader(correlation_id=correlation_id).encode_into(out, response.header_version(version))
    response.encode_into(out, version)
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return out


def encoding_response(response: Response, version: int, correlation_id: int) -> Steps[bytearray]:
    """Like :func:`encode_response`, but in steps."""
    out = bytearray(4)
    ResponseHeader(correlation_id=correlation_id).encode_into(out, response.header_version(version))
    yield from response.encoding_into(out, version)
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return out


def decode_request_header(frame: Buffer) -> RequestFrame:
    """Decode the header of a request frame without its length.

    The header of an unknown version is read in the form that future ApiVersions requests will keep (KIP-511): key,
    version, correlation id and client id stay in place, so a broker can respond with UNSUPPORTED_VERSION.

    Raises:
        DecodeError: The frame is too short, its ApiKey is unknown, or it still starts with its length.
    """
    message, version = _request_of(frame)
    header, pos = RequestHeader.decode_from(frame, 0, message.header_version(version))
    return RequestFrame(message.api_key, version, header.correlation_id, header.client_id, memoryview(frame)[pos:])


def decoding_request_header(frame: Buffer) -> Steps[RequestFrame]:
    """Like :func:`decode_request_header`, but in steps, because a header can consist of a huge number of tags."""
    message, version = _request_of(frame)
    header, pos = yield from RequestHeader.decoding_from(frame, 0, message.header_version(version))
    return RequestFrame(message.api_key, version, header.correlation_id, header.client_id, memoryview(frame)[pos:])


def _request_of(frame: Buffer) -> tuple[type[Request[Any]], int]:
    """Return the class and version of a request. Raises the same errors as :func:`decode_request_header`."""
    if len(frame) < _KEY_VERSION_ID.size:
        raise DecodeError(f"a request frame of {counted(len(frame), 'byte')} is too short for its header")
    api_key, version, _ = _KEY_VERSION_ID.unpack_from(frame)
    # This is the most common mistake of callers. It would otherwise be reported as an unknown ApiKey.
    if api_key << 16 | version & 0xFFFF == len(frame) - _LENGTH.size and not _may_be_header(api_key, version):
        raise DecodeError(f"the request frame still begins with its length, {len(frame) - _LENGTH.size}")
    return request_type(api_key), version


def _may_be_header(api_key: int, version: int) -> bool:
    """Whether four bytes that equal the rest of the frame's length can still be a key and version.

    If the key is 0 (Produce), they can't: the length would equal the version, and no Produce request is that short.
    """
    return api_key != _PRODUCE and api_key in APIS and version in request_type(api_key).versions


def decode_response(
    frame: Buffer, response: type[R], version: int, *, limits: Limits = DEFAULT_LIMITS, exact: bool = True
) -> R:
    """Decode the body of a response frame without its length.

    Unless ``exact`` is set, bytes after the body are ignored. Clients have to ignore them: the Java client and
    librdkafka do, so they work with brokers that send extra bytes.

    Raises:
        DecodeError: Bytes are missing, wrong, left over, or over a limit. Names the field.
    """
    pos = _body_at(frame, response.header_version(version))
    return response.decode(memoryview(frame)[pos:], version, limits=limits, exact=exact)


def _body_at(frame: Buffer, header_version: int) -> int:
    """Return the position of a response's body."""
    # Fast path: no broker sends tagged fields in the header today, and decoding the header takes as long as decoding a
    # small body.
    if header_version == 1 and len(frame) > _LENGTH.size and frame[_LENGTH.size] == 0:
        return _LENGTH.size + 1
    _, pos = ResponseHeader.decode_from(frame, 0, header_version)
    return pos


def decode_api_versions(frame: Buffer, version: int) -> ApiVersionsResponse:
    """Decode the response to an ApiVersions request of ``version``. ``frame`` is without its length.

    A broker that doesn't support that version responds with UNSUPPORTED_VERSION in the format of version 0. Since 2.4,
    the response lists the versions of ApiVersions that it supports (KIP-511). A list that can't be decoded counts as
    empty.

    Raises:
        DecodeError: See :func:`decode_response`.
    """
    # The error code follows the correlation id in every version.
    code = int.from_bytes(bytes(frame[4:6]), "big", signed=True)
    if code != ErrorCode.UNSUPPORTED_VERSION:
        return decode_response(frame, ApiVersionsResponse, version, exact=False)
    try:
        return decode_response(frame, ApiVersionsResponse, 0, exact=False)
    except DecodeError:
        # The code is enough. librdkafka's mock cluster lists its versions in a format that doesn't exist in the
        # protocol, and other brokers respond in the format of the request.
        return ApiVersionsResponse(error_code=code)


def response_correlation_id(frame: Buffer) -> int:
    """Return the correlation id of a response frame without its length."""
    if len(frame) < 4:
        raise DecodeError(f"a response frame of {counted(len(frame), 'byte')} is too short for its correlation id")
    (correlation_id,) = _LENGTH.unpack_from(frame)
    return int(correlation_id)


@has_compiled_form
def frame_buffer(size: int) -> memoryview:
    """Return a buffer for a frame of ``size`` bytes. Its contents are undefined until they are written.

    A large buffer takes up memory only as it's filled, so a peer that announces much but sends little costs little.

    Raises:
        ValueError: The size is negative.
    """
    return memoryview(bytearray(size) if size < _LARGE else mmap(-1, size))
