"""The verb ``encode``: JSON documents to frames."""

from __future__ import annotations

import json
from collections.abc import Iterator
from struct import Struct as Packer
from typing import Any, NamedTuple

from aiokproto.cli.codec.decoding import Reading
from aiokproto.cli.codec.document import KINDS, document_body
from aiokproto.cli.codec.names import InputError, UsageError
from aiokproto.cli.codec.record_sets import pack_batches, pack_entry
from aiokproto.codec.json import from_json
from aiokproto.codec.messages.header import RequestHeader, ResponseHeader
from aiokproto.codec.schema import Message, Request, Response

_LENGTH = Packer(">i")


class Wanted(NamedTuple):
    """How to encode JSON.

    Attributes:
        reading: How to read a bare body, or None if only whole documents are expected.
        is_response: Whether a bare body is the API's response.
        header: Whether to write headers.
        length: Whether to write lengths before headers.
        correlation_id: The correlation id in the header of a bare body.
        client_id: The client id in the header of a bare body.
    """

    reading: Reading | None
    is_response: bool
    header: bool
    length: bool
    correlation_id: int
    client_id: str | None


def read_json(data: bytes) -> Iterator[Any]:
    """Yield the JSON values in a text.

    Raises:
        InputError: The text is empty or isn't JSON.
    """
    try:
        text = data.decode("utf-8-sig").strip()
        if not text:
            raise InputError("the input is empty")
        decoder, pos = json.JSONDecoder(), 0
        while pos < len(text):
            value, pos = decoder.raw_decode(text, pos)
            yield value
            pos = len(text) - len(text[pos:].lstrip())
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None


def encode_document(document: Any, wanted: Wanted) -> bytes:
    """Encode a document from ``decode``, a batch from ``records``, or a bare body.

    Raises:
        UsageError: The JSON is a bare body, and no option says which message it is.
        InputError: The JSON is none of these.
        CodecError: A field is missing, unknown, or doesn't fit. The message names the field.
    """
    if isinstance(document, dict) and "body" in document and any(kind in document for kind in KINDS):
        return _whole(document, wanted)
    if wanted.reading is None and isinstance(document, dict) and ("records" in document or "raw" in document):
        return pack_entry(document)
    if wanted.reading is None:
        raise UsageError("the JSON does not name its message: give --as NAME:VERSION")
    target, version = wanted.reading
    message = target.response() if wanted.is_response else target.request()
    if version is None:
        raise UsageError(f"{target.name} needs a version: --as {target.name}:{message.versions.highest}")
    body = from_json(message, document, version, records=pack_batches)
    header = _made_header(message, version, wanted) if wanted.header else None
    return _framed(message, version, header, body.encode(version), wanted.length)


def _whole(document: dict[str, Any], wanted: Wanted) -> bytes:
    message, version, body = document_body(document, pack_batches)
    header = _given_header(message, version, document["header"]) if wanted.header and "header" in document else None
    return _framed(message, version, header, body, wanted.length)


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
        raise InputError(f"{message.__name__} has no header")
    header = from_json(RequestHeader, data, message.header_version(version))
    if (header.request_api_key, header.request_api_version) != (message.api_key, version):
        raise InputError(
            f"the header says ApiKey {header.request_api_key} v{header.request_api_version}, "
            f"the document {message.__name__} v{version}, which is ApiKey {message.api_key}"
        )
    return header
