"""The verb ``decode``: frames to JSON documents."""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from aiokproto.cli.codec.document import kind_of, payload_document
from aiokproto.cli.codec.inputs import Frame, split
from aiokproto.cli.codec.names import InputError, Target, ToolError, UsageError, checked_version, find
from aiokproto.codec.frames import decode_api_versions, decode_request_header, response_correlation_id
from aiokproto.codec.json import RecordsForm, to_json
from aiokproto.codec.messages.api_versions import ApiVersionsResponse
from aiokproto.codec.messages.header import RequestHeader, ResponseHeader
from aiokproto.codec.registry import api_name, request
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import CodecError, KafkaError


class Reading(NamedTuple):
    """The message to decode bytes as.

    Attributes:
        target: The API or message.
        version: The version, or None if a payload's prefix or a request's header contains it.
    """

    target: Target
    version: int | None


class Answers:
    """Matches the responses in a stream with their requests."""

    def __init__(self, readings: dict[int | None, Reading]) -> None:
        self._default = readings.get(None)
        self._by_id = {number: deque([reading]) for number, reading in readings.items() if number is not None}

    def sent(self, data: bytes) -> None:
        """Add the requests in a stream. If a correlation id is repeated, the responses are in the order of the
        requests."""
        for number, frame in enumerate(split(data, "length", lambda _: False), 1):
            position = f"request frame {number} at byte {frame.offset}"
            if frame.fault:
                raise InputError(f"{position}: {frame.fault}")
            try:
                header = decode_request_header(frame.data)
            except CodecError as error:
                raise InputError(f"{position}: {error}") from None
            reading = Reading(find(str(header.api_key)), header.api_version)
            self._by_id.setdefault(header.correlation_id, deque()).append(reading)

    def take(self, correlation_id: int) -> Reading:
        """Return how to decode the next response with a correlation id.

        Raises:
            UsageError: Neither an option nor a request determines it.
        """
        waiting = self._by_id.get(correlation_id)
        if waiting:
            # Keep the last reading, so decoding a frame again gives the same document.
            return waiting.popleft() if len(waiting) > 1 else waiting[0]
        if self._default is None:
            raise UsageError(f"the request of correlation id {correlation_id} is unknown: give --as or --requests")
        return self._default


def parse_reading(text: str) -> tuple[int | None, Reading]:
    """Parse ``[ID=]NAME[:VERSION]``.

    Raises:
        UsageError: The text doesn't have this form, or there is no such message or version.
    """
    number, separator, rest = text.rpartition("=")
    name, _, version = rest.partition(":")
    target = find(name)
    try:
        correlation_id = int(number) if separator else None
    except ValueError:
        raise UsageError(f"{number!r} is not a correlation id") from None
    if not version and target.api_key is not None:
        raise UsageError(f"{text!r} has no version: try {target.name}:{target.request().versions.highest}")
    return correlation_id, Reading(target, checked_version(target.request(), version) if version else None)


def documents(frames: Iterable[Frame], decode: Callable[[memoryview], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a document for each frame, up to the first incomplete or invalid frame.

    Raises:
        InputError: A frame is invalid. The message says which frame, and where it is.
        UsageError: No option says which message the frame is.
    """
    frames = list(frames)
    for number, frame in enumerate(frames, 1):
        position = f"frame {number} at byte {frame.offset}: " if len(frames) > 1 else ""
        if frame.fault:
            raise InputError(f"{position or 'frame: '}{frame.fault}")
        try:
            yield decode(frame.data)
        except ToolError as error:
            raise type(error)(f"{position}{error}") from error
        except KafkaError as error:
            raise InputError(f"{position}{error}") from error


def request_document(frame: memoryview, records: RecordsForm) -> dict[str, Any]:
    """Decode a request according to its header."""
    head = decode_request_header(frame)
    message = request(head.api_key)
    header_version = message.header_version(head.api_version)
    header, start = RequestHeader.decode_from(frame, 0, header_version)
    body, end = message.decode_from(frame, start, head.api_version)
    document = {
        "request": api_name(head.api_key),
        "version": head.api_version,
        "header": to_json(header, header_version),
        "body": to_json(body, head.api_version, records=records),
    }
    if end < len(frame):
        # Some clients send trailing bytes, which brokers ignore.
        document["trailingBytes"] = b64encode(frame[end:]).decode()
    return document


def is_request(frame: memoryview) -> bool:
    """Return whether a frame can be a request without its length: its header contains a known ApiKey and version."""
    try:
        head = decode_request_header(frame)
    except CodecError:
        return False
    return head.api_version in request(head.api_key).versions


def response_document(frame: memoryview, answers: Answers, records: RecordsForm) -> dict[str, Any]:
    """Decode a response. Its header contains only the correlation id."""
    reading = answers.take(response_correlation_id(frame))
    message, version = reading.target.response(), reading.version
    if not issubclass(message, Response) or version is None:
        raise UsageError(f"{reading.target.name} is not a response")
    header_version = message.header_version(version)
    header, start = ResponseHeader.decode_from(frame, 0, header_version)
    body: Response
    if message is ApiVersionsResponse:
        body = decode_api_versions(frame, version)
        # A broker that doesn't support the version answers in version 0 (KIP-511).
        version = 0 if body.error_code == ErrorCode.UNSUPPORTED_VERSION else version
    else:
        body = message.decode(frame[start:], version)
    return {
        "response": api_name(message.api_key),
        "version": version,
        "header": to_json(header, header_version),
        "body": to_json(body, version, records=records),
    }


def body_document(data: memoryview, reading: Reading, is_response: bool, records: RecordsForm) -> dict[str, Any]:
    """Decode a body without a header, or a payload."""
    message = reading.target.response() if is_response else reading.target.request()
    version = reading.version
    if version is None:
        return payload_document(message, data)
    body = to_json(message.decode(data, version), version, records=records)
    return kind_of(message) | {"version": version, "body": body}


def fits(decode: Callable[[memoryview], object], data: memoryview) -> bool:
    """Return whether ``decode`` accepts the bytes."""
    try:
        decode(data)
    except (KafkaError, ToolError):
        return False
    return True
