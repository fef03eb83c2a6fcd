"""The consumer protocol: subscriptions and assignments, as bytes that the coordinator passes on without reading them.

They are read and written here instead of by the codec's classes, which would create an object for each topic of each
member: see :mod:`~aiokproto.group.partition_list`. The tests compare the results with those classes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from aiokproto.codec.payloads.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from aiokproto.errors import DecodeError
from aiokproto.group.assignors import Subscription
from aiokproto.group.partition_list import PartitionList, decode_partitions
from aiokproto.types import TopicPartition

PROTOCOL_TYPE = "consumer"

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NULL = _INT32.pack(-1)

_OWNED_SINCE = 1
_GENERATION_SINCE = 2
_RACK_SINCE = 3


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None,
    owned: Iterable[TopicPartition],
    generation: int,
    rack_id: str | None,
) -> bytes:
    """Encode a member's subscription, for JoinGroup."""
    names = sorted(topics)
    # Write the newest version: members that only know older versions read the fields they know and skip the rest.
    out = bytearray(_INT16.pack(ConsumerProtocolSubscription.versions.highest) + _INT32.pack(len(names)))
    for name in names:
        out += _string(name)
    out += _NULL if user_data is None else _INT32.pack(len(user_data)) + user_data
    out += PartitionList.of(sorted(owned)).encode() + _INT32.pack(generation)
    out += _INT16.pack(-1) if rack_id is None else _string(rack_id)
    return bytes(out)


class SharedTopics:
    """The topics of the subscription that was decoded last.

    Most members of a group list the same topics, byte for byte. They share one set, which is decoded and processed only
    once.
    """

    def __init__(self) -> None:
        self._encoded = b""
        self._topics: AbstractSet[str] = frozenset()

    def read(self, reader: _Reader) -> AbstractSet[str]:
        """Read and return the next list of topics."""
        if not (self._encoded and reader.skip(self._encoded)):
            start = reader.position
            self._topics = dict.fromkeys(reader.strings()).keys()
            self._encoded = reader.since(start)
        return self._topics


def decode_subscription(data: bytes, group_instance_id: str | None, shared: SharedTopics | None = None) -> Subscription:
    """Decode the subscription of another member. Newer versions only append fields, which are skipped.

    Args:
        data: The bytes.
        group_instance_id: The member's static identity.
        shared: The object shared by all members of a group.

    Raises:
        DecodeError: The bytes are not a subscription.
    """
    reader = _Reader(data, "subscription")
    topics = (shared or SharedTopics()).read(reader)
    user_data = reader.blob()
    owned = reader.partitions() if reader.version >= _OWNED_SINCE else ()
    generation = reader.int32() if reader.version >= _GENERATION_SINCE else -1
    rack_id = reader.string() if reader.version >= _RACK_SINCE else None
    # Bytes after the known fields belong to a newer version: versions only append fields.
    return Subscription(topics, user_data, owned, generation, rack_id, group_instance_id)


def encode_assignment(assigned: Iterable[TopicPartition]) -> bytes:
    """Encode a member's assignment, for SyncGroup, with topics in the order they occur."""
    version = _INT16.pack(ConsumerProtocolAssignment.versions.highest)
    return version + PartitionList.of(assigned).encode() + _NULL


def decode_assignment(data: bytes) -> PartitionList:
    """Decode the assignment that the leader has computed for this member. Empty bytes mean no partitions.

    Raises:
        DecodeError: The bytes are not an assignment.
    """
    if not data:
        return PartitionList.of(())
    reader = _Reader(data, "assignment")
    assigned = reader.partitions()
    reader.blob()
    return assigned


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


class _Reader:
    """Reads the fields of a message one after another. Malformed fields raise DecodeError.

    Attributes:
        version: The version of the message.
        position: Where the next field begins.
    """

    def __init__(self, data: bytes, kind: str) -> None:
        self._data = data
        self._kind = kind
        self.position = 0
        self.version = self._integer(_INT16)
        if self.version < 0:
            raise self._malformed(f"version {self.version}")

    def skip(self, expected: bytes) -> bool:
        """Skip these bytes if they come next. Return whether they did."""
        follow = self._data.startswith(expected, self.position)
        self.position += len(expected) if follow else 0
        return follow

    def since(self, start: int) -> bytes:
        """Return what was read since a position."""
        return self._data[start : self.position]

    def int32(self) -> int:
        return self._integer(_INT32)

    def string(self) -> str | None:
        data = self._take(self._integer(_INT16))
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise self._malformed(str(error)) from error

    def strings(self) -> list[str]:
        found = []
        for _ in range(self._integer(_INT32)):
            text = self.string()
            if text is None:
                raise self._malformed("a topic without a name")
            found.append(text)
        return found

    def blob(self) -> bytes | None:
        return self._take(self._integer(_INT32))

    def partitions(self) -> PartitionList:
        try:
            found, self.position = decode_partitions(self._data, self.position)
        except ValueError as error:
            raise self._malformed(str(error)) from error
        return found

    def _integer(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self._data, self.position)
        except struct.error:
            raise self._malformed(f"it ends after {len(self._data)} bytes") from None
        self.position += form.size
        return int(value)

    def _take(self, size: int) -> bytes | None:
        if size < 0:
            return None
        start, self.position = self.position, self.position + size
        if self.position > len(self._data):
            raise self._malformed(f"it ends after {len(self._data)} bytes")
        return self._data[start : self.position]

    def _malformed(self, problem: str) -> DecodeError:
        return DecodeError(f"consumer protocol: malformed {self._kind}: {problem}")
