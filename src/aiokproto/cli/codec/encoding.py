"""From JSON documents to frames: ``encode``."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from struct import Struct as Packer
from struct import error as StructError
from typing import Any, NamedTuple

from aiokproto.cli.codec.decoding import Reading, kind_of
from aiokproto.cli.codec.names import UsageError, checked_version, find
from aiokproto.codec.json import from_json
from aiokproto.codec.messages.header import RequestHeader, ResponseHeader
from aiokproto.codec.schema import Message, Request, Response

_LENGTH = Packer(">i")
_INT16 = Packer(">h")
_KINDS = ("request", "response", "payload")
_KEYS = {*_KINDS, "version", "prefix", "header", "body", "trailingBytes"}


class Wanted(NamedTuple):
    """What to make of the JSON.

    Attributes:
        reading: What a bare body is; None if only whole documents are expected.
        is_response: Whether it is the response of its API.
        header: Whether headers are written.
        length: Whether lengths are written in front of headers.
        correlation_id: For the header of a bare body.
        client_id: For the header of a bare body.
    """

    reading: Reading | None
    is_response: bool
    header: bool
    length: bool
    correlation_id: int
    client_id: str | None


def read_json(data: bytes) -> Iterator[Any]:
    """The JSON values in a text, one after another.

    Raises:
        UsageError: It is not JSON, or there is none.
    """
    try:
        text = data.decode("utf-8-sig").strip()
        if not text:
            raise UsageError("the input is empty")
        decoder, pos = json.JSONDecoder(), 0
        while pos < len(text):
            value, pos = decoder.raw_decode(text, pos)
            yield value
            pos = len(text) - len(text[pos:].lstrip())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None


def encode_document(document: Any, wanted: Wanted) -> bytes:
    """The bytes of a document as ``decode`` prints it, or of a body alone.

    Raises:
        UsageError: It is neither, or does not say what it is.
        CodecError: A field is missing, unknown, or does not fit; names the field.
    """
    if isinstance(document, dict) and "body" in document and any(kind in document for kind in _KINDS):
        return _whole(document, wanted)
    if wanted.reading is None:
        raise UsageError("the JSON does not say which message it is (--as NAME:VERSION does)")
    target, version = wanted.reading
    message = target.response() if wanted.is_response else target.request()
    if version is None:
        raise UsageError(f"{target.name} needs a version: --as {target.name}:{message.versions.highest}")
    body = from_json(message, document, version)
    header = _made_header(message, version, wanted) if wanted.header else None
    return _framed(message, version, header, body.encode(version), wanted.length)


def _whole(document: dict[str, Any], wanted: Wanted) -> bytes:
    if unknown := sorted(set(document) - _KEYS):
        raise UsageError(f"a document has no {', '.join(unknown)}")
    kind = next(kind for kind in _KINDS if kind in document)
    target = find(str(document[kind]))
    message = target.response() if kind == "response" else target.request()
    if kind not in kind_of(message):
        raise UsageError(f"{target.name} is no {kind}")
    version = checked_version(message, str(document.get("version", "(none given)")))
    body = from_json(message, document["body"], version).encode(version)
    if "prefix" in document:
        body = _prefix(document["prefix"]) + body
    if trailing := document.get("trailingBytes"):
        try:
            body += b64decode(trailing, validate=True)
        except (TypeError, ValueError):
            raise UsageError("trailingBytes is not base64") from None
    header = _given_header(message, version, document["header"]) if wanted.header and "header" in document else None
    return _framed(message, version, header, body, wanted.length)


def _prefix(value: Any) -> bytes:
    try:
        return _INT16.pack(value)
    except StructError:
        raise UsageError(f"prefix {value!r} is no int16") from None


def _framed(message: type[Message], version: int, header: Message | None, body: bytes, length: bool) -> bytes:
    if header is None or not issubclass(message, (Request, Response)):
        return body
    frame = header.encode(message.header_version(version)) + body
    return (_LENGTH.pack(len(frame)) if length else b"") + frame


def _made_header(message: type[Message], version: int, wanted: Wanted) -> Message | None:
    if issubclass(message, Response):
        return ResponseHeader(correlation_id=wanted.correlation_id)
    if not issubclass(message, Request):
        return None
    header = RequestHeader(
        request_api_key=message.api_key, request_api_version=version, correlation_id=wanted.correlation_id
    )
    if message.header_version(version):
        header.client_id = wanted.client_id
    return header


def _given_header(message: type[Message], version: int, data: Any) -> Message:
    if issubclass(message, Response):
        return from_json(ResponseHeader, data, message.header_version(version))
    if not issubclass(message, Request):
        raise UsageError(f"{message.__name__} has no header")
    header = from_json(RequestHeader, data, message.header_version(version))
    if (header.request_api_key, header.request_api_version) != (message.api_key, version):
        raise UsageError(
            f"the header says ApiKey {header.request_api_key} v{header.request_api_version}, "
            f"the document {message.__name__} v{version}, which is ApiKey {message.api_key}"
        )
    return header
