"""A record as users hand it over, and the checks it passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aiokproto.errors import InvalidRecordError
from aiokproto.types import Header

INT64_MAX = 0x7FFFFFFFFFFFFFFF


class ProducerRecord(NamedTuple):
    """A record for :meth:`~aiokproto.producer.Producer.send_many`.

    Attributes:
        value: The value; None is a tombstone.
        key: The key, or None.
        headers: Keys and values, in order.
        partition: The partition; None leaves it to the partitioner.
        timestamp: Milliseconds since the epoch; None for now.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


class PendingRecord(NamedTuple):
    """A checked record whose partition has no open batch with room, or whose topic is not known yet."""

    topic: str
    partition: int | None
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


def as_bytes(what: str, content: object) -> bytes | None:
    """``content`` as immutable bytes: whoever reuses a buffer after posting it must not change what is sent.

    Raises:
        InvalidRecordError: It is no bytes-like.
    """
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    hint = "; encode it" if isinstance(content, str) else ""
    raise InvalidRecordError(f"{what} must be bytes, got {type(content).__name__}{hint}")


def check_timestamp(timestamp: object) -> int:
    """``timestamp`` if it is one.

    Raises:
        InvalidRecordError: It is no int, or negative, or has more than 63 bits.
    """
    if not isinstance(timestamp, int) or isinstance(timestamp, bool):
        raise InvalidRecordError(f"timestamp must be an int, milliseconds since the epoch, got {timestamp!r}")
    if not 0 <= timestamp <= INT64_MAX:
        raise InvalidRecordError(f"timestamp must be 0 to 2**63 - 1 milliseconds since the epoch, got {timestamp}")
    return timestamp


def check_headers(headers: Sequence[Header]) -> Sequence[Header]:
    """Headers as they can be written.

    Raises:
        InvalidRecordError: They are no sequence of pairs of str and bytes (or None).
    """
    if not isinstance(headers, list | tuple):
        raise InvalidRecordError(f"headers must be a list or tuple of (str, bytes) pairs, got {type(headers).__name__}")
    checked: list[Header] = []
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2:
            raise InvalidRecordError(f"a header must be a (str, bytes) tuple, got {header!r}")
        name, content = header
        if not isinstance(name, str):
            raise InvalidRecordError(f"a header's key must be str, got {type(name).__name__}")
        checked.append((name, as_bytes(f"header {name!r}", content)))
    return checked
