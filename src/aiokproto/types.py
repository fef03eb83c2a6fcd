"""Values that users work with: records, offsets, the metadata of an acknowledged record."""

from __future__ import annotations

from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from aiokproto.accelerator import has_compiled_form

if TYPE_CHECKING:
    # With the default (PEP 696), a bare `Record` is a record of bytes.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Header = tuple[str, bytes | None]
"""A record header: its key and value. Keys may repeat; order is kept."""


class TimestampType(IntEnum):
    """Whether the producer or the broker set a record's timestamp (KIP-32)."""

    NO_TIMESTAMP = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@has_compiled_form
class RecordMetadata:
    """The position of an acknowledged record.

    Attributes:
        topic: The topic's name.
        partition: The record's partition.
        offset: The record's offset in the partition; -1 with ``acks=0``, where there is no response.
        timestamp: Milliseconds since the epoch, as stored: the broker's time if the topic has LogAppendTime.
    """

    # It's read-only because it's hashable.
    __slots__ = ("_offset", "_partition", "_timestamp", "_topic")

    def __init__(self, topic: str, partition: int, offset: int, timestamp: int) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._timestamp = timestamp

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def timestamp(self) -> int:
        return self._timestamp

    def _fields(self) -> tuple[str, int, int, int]:
        return self._topic, self._partition, self._offset, self._timestamp

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp})"
        )

    def __reduce__(self) -> tuple[type[RecordMetadata], tuple[str, int, int, int]]:
        # Pickle needs this: the slots are private and read-only.
        return type(self), self._fields()


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the *next* record to read, the committer's metadata, and the leader epoch of
    the last record read (-1 if unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """A consumer's identity in its group. A transaction needs it to commit offsets (KIP-447).

    The coordinator refuses the offsets of a member that the group has continued without. With only a group id it
    doesn't check that, and two consumers of the same partitions could both commit.

    Attributes:
        group_id: The group.
        generation: The generation of a classic group, or the member's epoch (KIP-848). -1 isn't checked.
        member_id: The member's id. An empty one isn't checked.
        instance_id: The ``group_instance_id`` of a static member.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """The offset and timestamp (ms since the epoch) of the first record at or after a given time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class Ownership:
    """One ownership of a partition by a consumer, from its assignment until it's revoked or lost.

    It equals only itself and refers to nothing, so keeping a record doesn't keep its consumer alive.
    """

    __slots__ = ()


@has_compiled_form
class Record(Generic[K, V]):
    """A record read from a topic. ``Record[K, V]`` has a key and value that the consumer has deserialized.

    Attributes:
        topic: The topic's name.
        partition: The partition it was read from.
        offset: Its offset in the partition.
        timestamp: Milliseconds since the epoch; -1 if the record has none.
        key: The key, or None.
        value: The value, or None (a tombstone).
        headers: The headers in order; empty if there are none.
        timestamp_type: Whether the producer or the broker set the timestamp.
        leader_epoch: The leader epoch of its batch; -1 if unknown.
    """

    # `_ownership` is the partition's ownership under which a consumer read the record; None if it wasn't read by a
    # consumer. It isn't part of the record's content, so it's missing from the repr and from copies.
    __slots__ = (
        "_ownership",
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: K | None,
        value: V | None,
        headers: tuple[Header, ...] = (),
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        leader_epoch: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_type = timestamp_type
        self.leader_epoch = leader_epoch
        self._ownership: Ownership | None = None

    @property
    def error(self) -> Exception | None:
        """Why the record could not be decoded (a ``RecordDeserializationError`` or ``CorruptBatchError``), or None for
        a valid record. See the consumer's ``on_undecodable``."""
        return None

    @property
    def raw_key(self) -> bytes | None:
        """The key as stored, before ``key_deserializer``."""
        key: Any = self.key
        raw: bytes | None = key
        return raw

    @property
    def raw_value(self) -> bytes | None:
        """The value as stored, before ``value_deserializer``."""
        value: Any = self.value
        raw: bytes | None = value
        return raw

    def __repr__(self) -> str:
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Leave out the ownership: a copy isn't the record that was delivered.
        slots = {name: getattr(self, name) for name in _FIELDS}
        return __newobj__, (type(self),), (getattr(self, "__dict__", None), {**slots, "_ownership": None})


_FIELDS = ("headers", "key", "leader_epoch", "offset", "partition", "timestamp", "timestamp_type", "topic", "value")
"""The fields of a record that are pickled and copied."""


class DeserializedRecord(Record[K, V]):
    """A record with a deserialized key or value. ``raw_key`` and ``raw_value`` are the original bytes."""

    __slots__ = ("_raw_key", "_raw_value")

    def __init__(self, record: Record, key: K | None, value: V | None) -> None:
        super().__init__(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            key,
            value,
            record.headers,
            record.timestamp_type,
            record.leader_epoch,
        )
        self._ownership = record._ownership
        self._raw_key = record.key
        self._raw_value = record.value

    @property
    def raw_key(self) -> bytes | None:
        return self._raw_key

    @property
    def raw_value(self) -> bytes | None:
        return self._raw_value

    def __reduce__(self) -> tuple[Any, ...]:
        # The slots are private and read-only, so a copy is created from the constructor's arguments.
        return type(self), (_stored(self), self.key, self.value)


class UndecodableRecord(Record[K, V]):
    """A record that could not be decoded: ``error`` is the reason, and key and value are raw bytes.

    For a damaged batch, there is one such record: its offset is the first of the batch, and its value is the whole
    batch.
    """

    __slots__ = ("_error",)

    def __init__(self, record: Record, error: Exception) -> None:
        key: Any = record.key
        value: Any = record.value
        super().__init__(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            key,
            value,
            record.headers,
            record.timestamp_type,
            record.leader_epoch,
        )
        self._ownership = record._ownership
        self._error = error

    @property
    def error(self) -> Exception | None:
        return self._error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (_stored(self), self._error)


class RawControlRecord(Record[bytes, bytes]):
    """A control record, written by a broker or a transaction coordinator (``keep_control_records``).

    Key and value are bytes, and aren't deserialized. :func:`aiokproto.records.control.parse` decodes them.
    """

    __slots__ = ()

    def __init__(self, record: Record) -> None:
        super().__init__(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            record.timestamp_type,
            record.leader_epoch,
        )
        self._ownership = record._ownership

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (_stored(self),)


def _stored(record: Record[Any, Any]) -> Record:
    """Return the record with its original bytes."""
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.raw_key,
        record.raw_value,
        record.headers,
        record.timestamp_type,
        record.leader_epoch,
    )
