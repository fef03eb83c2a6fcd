"""A record as the caller passes it, and the checks of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from aiokproto.errors import InvalidRecordError
from aiokproto.texts import is_unicode
from aiokproto.types import Header, K, V

INT64_MAX = 0x7FFFFFFFFFFFFFFF


if TYPE_CHECKING:
    # A NamedTuple can't be generic at run time before Python 3.11.
    class ProducerRecord(NamedTuple, Generic[K, V]):
        value: V | None
        key: K | None = None
        headers: Sequence[Header] = ()
        partition: int | None = None
        timestamp: int | None = None

else:

    class ProducerRecord(NamedTuple):
        """A record for :meth:`~aiokproto.producer.Producer.send_many`. For type checkers it's ``ProducerRecord[K, V]``.

        Attributes:
            value: The value: bytes, or what ``value_serializer`` accepts. None is a tombstone.
            key: The key, likewise, or None.
            headers: Keys and values, in order.
            partition: The partition, or None to let the partitioner choose.
            timestamp: Milliseconds since the epoch, or None for now.
        """

        value: Any
        key: Any = None
        headers: Sequence[Header] = ()
        partition: int | None = None
        timestamp: int | None = None

        __class_getitem__ = classmethod(GenericAlias)


class PendingRecord(NamedTuple):
    """A checked record that hasn't been appended yet: its partition's open batch is full, or its topic is unknown."""

    topic: str
    partition: int | None
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


def as_bytes(what: str, content: object) -> bytes | None:
    """Return ``content`` as immutable bytes. Mutable buffers are copied, since the caller may reuse them after posting.

    Raises:
        InvalidRecordError: It is not bytes-like.
    """
    # A subclass of bytes is immutable too.
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    remedy = "encode it" if isinstance(content, str) else "pass a serializer, or serialize it: json.dumps(…).encode()"
    raise InvalidRecordError(f"{what} must be bytes, got {type(content).__name__}; {remedy}")


def check_topic(topic: object) -> None:
    """Raise InvalidRecordError unless ``topic`` is a str."""
    if not isinstance(topic, str):
        raise InvalidRecordError(f"topic must be a str, got {topic!r}")


def check_timestamp(timestamp: object) -> int:
    """Return ``timestamp`` if it is valid.

    Raises:
        InvalidRecordError: It is not an int, is negative, or has more than 63 bits.
    """
    if not isinstance(timestamp, int) or isinstance(timestamp, bool):
        remedy = "; pass int(when.timestamp() * 1000)" if hasattr(timestamp, "timestamp") else ""
        raise InvalidRecordError(f"timestamp must be an int, milliseconds since the epoch, got {timestamp!r}{remedy}")
    if not 0 <= timestamp <= INT64_MAX:
        raise InvalidRecordError(f"timestamp must be 0 to 2**63 - 1 milliseconds since the epoch, got {timestamp}")
    return timestamp


def check_headers(headers: Sequence[Header]) -> Sequence[Header]:
    """Return the headers with their values as bytes.

    Raises:
        InvalidRecordError: They are not a list or tuple of (str, bytes or None) tuples, or a key can't be encoded as
            UTF-8.
    """
    if not isinstance(headers, list | tuple):
        remedies = {dict: "; pass list(headers.items())", type(None): "; leave it out for none"}
        remedy = remedies.get(type(headers), "")
        raise InvalidRecordError(
            f"headers must be a list or tuple of (str, bytes) pairs, got {type(headers).__name__}{remedy}"
        )
    checked: list[Header] = []
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2:
            raise InvalidRecordError(f"a header must be a (str, bytes) tuple, got {header!r}")
        name, content = header
        if not isinstance(name, str):
            raise InvalidRecordError(f"a header's key must be str, got {type(name).__name__}")
        # Reject a bad key here. If encoding failed later, it would leave an empty batch, which would end the producer.
        if not name.isascii() and not is_unicode(name):
            raise InvalidRecordError(f"header {name!r}: UTF-8 cannot have the key, which has a lone surrogate")
        checked.append((name, as_bytes(f"header {name!r}", content)))
    return checked
