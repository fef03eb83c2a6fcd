"""Messages of magic 0 and 1, as Kafka stored and sent them before 0.11.

A *message set* is a sequence of messages, each with its own offset and checksum. Compressed messages form an inner set,
which is the value of another message, the wrapper. The wrapper's offset is the offset of the last inner message. Inner
offsets are absolute in magic 0, and relative to the first inner message in magic 1. Magic 1 added timestamps (KIP-32).
If the broker sets them (LogAppendTime), the wrapper's timestamp applies to all inner messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from zlib import crc32

from aiokproto.errors import CodecError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records.batch import LOG_OVERHEAD, MAGIC_AT, TIMESTAMP_TYPE, RecordBatch
from aiokproto.records.compression import MAX_DECOMPRESSED, Budget, Bytes, Compression, TooLargeError, chunks
from aiokproto.records.cutting import cut
from aiokproto.records.lz4_v0 import from_v0
from aiokproto.records.record import MAX_RECORD, Make
from aiokproto.records.slices import LegacySlices, Slices, named
from aiokproto.records.varint import INT64_MAX
from aiokproto.types import TimestampType

T = TypeVar("T")

SMALLEST = (14, 22)
"""Minimum ``length`` of a message of magic 0 and 1: a message without key and value."""

_HEAD = struct.Struct(">qiIBBq")
"""Offset, length, checksum, magic, attributes and, in magic 1, the timestamp. The smallest magic 0 message is as large
as this, so all of it can be read before the magic is known."""

_SIZES_AT = (18, 26)
_SIZES = struct.Struct(">ii")
"""Size of the key, and size of the value if there is no key: the end of the smallest message."""

_INT32 = struct.Struct(">i")
_LENGTH_AT = 8
_EMPTY = "there is no message in the compressed set"
_CODEC = 0x07

# Kafka 0.8 wrote one level, but read any number of levels.
_DEEPEST = 8

Message = tuple[int, int, int, int, bytes | None, bytes | None]
"""Offset, magic, attributes, timestamp, key, value. If the attributes contain a codec, the value is a message set."""


class LegacyBatch(RecordBatch):
    """An outer message of magic 0 or 1: one record, or a compressed set of records.

    It has the interface of :class:`~aiokproto.records.batch.RecordBatch`. Fields that these formats don't have
    (producer, transaction, control flag, leader epoch) are unset. The header of a compressed set doesn't contain
    ``base_offset``, ``last_offset_delta`` and ``count``, so the first use of one of them decompresses the set.

    Attributes:
        offset: The offset in the message: of its only record, or of the last record in the set.
        check_crc: Whether to verify the checksums of inner messages when they are read.
    """

    __slots__ = ("check_crc", "offset")

    offset: int
    partition_leader_epoch = -1
    producer_id = -1
    producer_epoch = -1
    base_sequence = -1

    def __init__(
        self,
        raw: Bytes,
        *,
        max_decompressed: int = MAX_DECOMPRESSED,
        max_record: int = MAX_RECORD,
        check_crc: bool = True,
    ) -> None:
        """View ``raw``, which must be exactly one message. Its checksum isn't verified: see :meth:`validate`.

        Raises:
            CorruptRecordError: ``raw`` is not one complete message of magic 0 or 1.
        """
        self.raw = self.source = view = memoryview(raw)
        self.position = 0
        self.max_decompressed = max_decompressed
        self.max_record = max_record
        self.check_crc = check_crc
        size = len(view)
        if size < _HEAD.size:
            raise CorruptRecordError(f"a message has at least {_HEAD.size} bytes, not {size}")
        offset, length, self.crc, magic, attributes, timestamp = _HEAD.unpack_from(view)
        self.offset = offset
        self.length = length
        self.magic = magic
        self.attributes = attributes
        if magic > 1:
            raise self.damage(f"magic is {magic}, neither 0 nor 1")
        if length + LOG_OVERHEAD != size:
            raise self.damage(f"by its length field it has {length + LOG_OVERHEAD} bytes, not {size}")
        if length < SMALLEST[magic]:
            raise self.damage(f"length {length} is too small for magic {magic}")
        # The next offset must fit into an int64, too. The checksum doesn't cover the offset.
        if offset == INT64_MAX:
            raise self.damage("there is no offset behind it in 64 bits")
        # These eight bytes are the key's size and other data in magic 0.
        self.base_timestamp = self.max_timestamp = timestamp if magic else -1
        # A compressed set leaves these slots unset, and __getattr__ fills them on first use.
        if not attributes & _CODEC:
            self.base_offset = offset
            self.last_offset_delta = 0
            self.count = 1

    # Hide this from type checkers. Otherwise every attribute would exist for them.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> int:
            """Decompress the set when a slot that the constructor has left empty is read."""
            if name not in ("base_offset", "count", "last_offset_delta"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            slices = self.slices(lambda offset, *_: offset)
            offsets = slices.read()
            first, count = offsets[0], len(offsets)
            while not slices.ended:
                count += len(slices.read())
            self.base_offset = first
            self.count = count
            self.last_offset_delta = self.offset - first
            return getattr(self, name)

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME; NO_TIMESTAMP in magic 0."""
        if not self.magic:
            return TimestampType.NO_TIMESTAMP
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """False: the format has no transactions."""
        return False

    @property
    def is_control(self) -> bool:
        """False: the format has no control records."""
        return False

    @property
    def has_delete_horizon(self) -> bool:
        """False: the format has no delete horizon."""
        return False

    @property
    def last_offset(self) -> int:
        """Offset of the last record. It's known without decompressing the set."""
        return self.offset

    @property
    def next_offset(self) -> int:
        """The offset after this message, to continue reading from. It's known without decompressing the set."""
        return self.offset + 1

    def validate(self) -> None:
        """Verify the checksum. From then on, checksums of inner messages are also verified when they are read.

        Raises:
            CorruptRecordError: The checksum does not match the bytes.
        """
        # Remember this: inner messages have their own checksums, which are known only after decompressing.
        self.check_crc = True
        actual = crc32(self.raw[MAGIC_AT:])
        if actual != self.crc:
            raise self.damage(f"checksum is {actual:#010x} but should be {self.crc:#010x}")

    def body(self) -> Bytes:
        """Return the inner message set, decompressed. If there's no compression, return the message itself.

        Raises:
            CorruptRecordError: The set cannot be decompressed, or exceeds ``max_decompressed`` bytes.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        if not self.attributes & _CODEC:
            return self.raw
        try:
            return Budget(self.max_decompressed).decompress(*_packed(self._message()))
        except CodecError as error:
            raise self.damage(error) from error.__cause__

    def read_or_slice(self, make: Make[T], *, check_crc: bool = False) -> list[T] | Slices[T]:
        """Return an object that reads slices: the number and sizes of records are known only once the set is read."""
        return self.slices(make, check_crc=check_crc)

    def slices(self, make: Make[T], *, check_crc: bool = False) -> Slices[T]:
        """Return the records in slices that use limited memory, each built by ``make(offset, timestamp, key, value,
        headers)`` with empty headers."""
        return LegacySlices(self, make, check_crc=check_crc)

    def records_within(self, size: int, make: Make[T]) -> list[T] | None:
        """Return all records, or None if they and the sets that contain them decompress to more than ``size`` bytes.

        Raises:
            CorruptRecordError: The message, or an inner message, is damaged.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        try:
            message = self._message()
            if not self.attributes & _CODEC:
                offset, _, _, timestamp, key, value = message
                return [make(offset, timestamp, key, value, ())]
            messages, base = _open(message, Budget(min(size, self.max_decompressed)), self.check_crc)
        except TooLargeError:
            return None
        except CodecError as error:
            raise self.damage(error) from error.__cause__
        return [make(base + offset, timestamp, key, value, ()) for offset, _, _, timestamp, key, value in messages]

    def records_in_pieces(self, make: Make[T], size: int, most: int) -> Iterator[list[T]]:
        """Yield the records, as in :meth:`records`, in lists of at most ``size`` bytes and ``most`` records.

        A larger record is in a list of its own. About one list is in memory at a time, or one per level if sets are
        nested. ``max_decompressed`` applies to the set, and to all inner sets together: at each level a few kilobytes
        can grow a thousandfold. ``max_record`` also limits everything that is held of an outer level.
        """
        try:
            message = self._message()
            if not self.attributes & _CODEC:
                yield [make(self.offset, self.base_timestamp, message[4], message[5], ())]
                return
            base = 0
            if self.magic:
                # The absolute offsets follow from the last inner offset, so a set that doesn't fit in one list is
                # decompressed twice.
                once, base = _survey(message, self._cutting(size, most))
            else:
                once = None
            # Use a separate budget: the survey has already decompressed everything once.
            for messages in [once] if once else _in_pieces(message, self._cutting(size, most)):
                yield [
                    make(base + offset, timestamp, key, value, ()) for offset, _, _, timestamp, key, value in messages
                ]
        except CodecError as error:
            raise named(self, error) from error.__cause__

    def _cutting(self, size: int, most: int) -> _Cutting:
        return _Cutting(
            size, most, self.check_crc, self.max_record, self.max_decompressed, Budget(self.max_decompressed)
        )

    def _message(self) -> Message:
        key, value = _key_and_value(bytes(self.raw), _SIZES_AT[self.magic], len(self.raw))
        return self.offset, self.magic, self.attributes, self.base_timestamp, key, value

    def __repr__(self) -> str:
        return (
            f"LegacyBatch(offset={self.offset}, magic={self.magic}, size_in_bytes={self.size_in_bytes}, "
            f"attributes={self.attributes:#x})"
        )

    def damage(self, why: object) -> CorruptRecordError:
        """Return an error that mentions the batch."""
        return CorruptRecordError(f"message at offset {self.offset}: {why}")


class _Cutting(NamedTuple):
    """How to read a compressed set in lists.

    Attributes:
        size: Maximum bytes in a list, unless it consists of one message.
        most: Maximum messages in a list.
        check_crc: Whether to verify checksums.
        largest: Maximum bytes of a message.
        room: Maximum bytes that the set decompresses to.
        inner: The same limit for all inner sets together.
    """

    size: int
    most: int
    check_crc: bool
    largest: int
    room: int
    inner: Budget


def _read_set(data: bytes, check_crc: bool) -> list[Message]:
    found: list[Message] = []
    size = len(data)
    pos = 0
    before = -1
    while pos < size:
        if size - pos < _HEAD.size:
            raise CorruptRecordError(f"the set inside ends within a message, at byte {size}")
        offset, length, crc, magic, attributes, timestamp = _HEAD.unpack_from(data, pos)
        if magic > 1:
            raise CorruptRecordError(f"the message inside at byte {pos} has magic {magic}")
        end = pos + LOG_OVERHEAD + length
        if length < SMALLEST[magic] or end > size:
            raise CorruptRecordError(f"the message inside at byte {pos} has length {length}")
        if check_crc and (actual := crc32(data[pos + MAGIC_AT : end])) != crc:
            raise _mismatch(pos, actual, crc)
        key, value = _key_and_value(data, pos + _SIZES_AT[magic], end)
        found.append((offset, magic, attributes, timestamp if magic else -1, key, value))
        pos = end
        # Two consecutive messages have the same size. More will probably follow, since producers repeat themselves.
        if length == before:
            pos = _read_alike(data, pos, check_crc, found)
        before = length
    return found


def _read_alike(data: bytes, pos: int, check_crc: bool, found: list[Message]) -> int:
    """Append the messages at ``pos`` with the same magic and sizes as the last one. Return the position after them.

    One struct reads the whole message, in half the time of reading it field by field.
    """
    _, last_magic, _, _, last_key, last_value = found[-1]
    last_key_size = -1 if last_key is None else len(last_key)
    last_value_size = -1 if last_value is None else len(last_value)
    shape = _shape(last_magic, last_key_size, last_value_size)
    size = shape.size
    like_last = (size - LOG_OVERHEAD, last_magic, last_key_size, last_value_size)
    room = (len(data) - pos) // size * size
    for fields in shape.iter_unpack(memoryview(data)[pos : pos + room]):
        offset, length, crc, magic, attributes, timestamp, key_size, key, value_size, value = fields
        if (length, magic, key_size, value_size) != like_last:
            break
        if check_crc and (actual := crc32(data[pos + MAGIC_AT : pos + size])) != crc:
            raise _mismatch(pos, actual, crc)
        # The sizes are equal, so this message has None or empty bytes exactly where the last message has them.
        found.append((offset, magic, attributes, timestamp if magic else -1, last_key and key, last_value and value))
        pos += size
    return pos


@lru_cache(maxsize=64)
def _shape(magic: int, key_size: int, value_size: int) -> struct.Struct:
    """Return the struct for a message with these sizes. A missing timestamp, key or value is read as empty bytes."""
    return struct.Struct(f">qiIBB{'q' if magic else '0s'}i{max(key_size, 0)}si{max(value_size, 0)}s")


def _mismatch(pos: int, actual: int, crc: int) -> CorruptRecordError:
    return CorruptRecordError(f"the message inside at byte {pos}: checksum is {actual:#010x} but should be {crc:#010x}")


def _key_and_value(data: bytes, pos: int, end: int) -> tuple[bytes | None, bytes | None]:
    """Read key and value, which extend from ``pos`` to ``end``. The caller has checked that both sizes fit."""
    key_size, value_size = _SIZES.unpack_from(data, pos)
    pos += 8
    key = value = None
    if key_size >= 0:
        pos -= 4
        key = data[pos : (pos := pos + key_size)]
        try:
            (value_size,) = _INT32.unpack_from(data, pos)
        except struct.error:
            raise CorruptRecordError(f"its key of {key_size} bytes exceeds the message") from None
        pos += 4
    if value_size >= 0:
        value = data[pos : (pos := pos + value_size)]
    # With a wrong size, the final position isn't the end, so the sizes don't have to be checked separately.
    if pos != end:
        raise CorruptRecordError(f"its key and value end at byte {pos} but should end at {end}")
    return key, value


def _packed(wrapper: Message) -> tuple[Compression, Bytes]:
    offset, magic, attributes, _, _, packed = wrapper
    if packed is None:
        raise CorruptRecordError("it is compressed but has no value")
    try:
        codec = Compression.of(attributes)
    except UnsupportedCompressionError as error:
        raise UnsupportedCompressionError(f"message at offset {offset}: {error}") from None
    if codec is Compression.ZSTD:
        raise CorruptRecordError(f"it is compressed with zstd, which magic {magic} does not have (KIP-110)")
    return codec, from_v0(packed) if codec is Compression.LZ4 and not magic else packed


def _open(wrapper: Message, budget: Budget, check_crc: bool, depth: int = 1) -> tuple[list[Message], int]:
    """Return the messages inside ``wrapper`` with their effective timestamps, and what to add to their offsets."""
    inside = _read_set(budget.decompress(*_packed(wrapper)), check_crc)
    if not inside:
        raise CorruptRecordError(_EMPTY)
    # The offsets are relative to the base in magic 1, and nesting isn't allowed (_highest).
    if wrapper[1]:
        return _stamped(wrapper, inside), _base_offset(wrapper, inside[-1][0], _highest(inside))
    flat: list[Message] = []
    for message in inside:
        _, magic, attributes, *_ = message
        if not attributes & _CODEC:
            flat.append(message)
            continue
        _check_depth(magic, depth)
        flat += _open(message, budget, check_crc, depth + 1)[0]
    return flat, 0


def _check_depth(magic: int, depth: int) -> None:
    # Magic 0 has absolute offsets at every depth. For nested sets, the relative offsets of magic 1 aren't defined.
    if magic or depth == _DEEPEST:
        raise CorruptRecordError(f"compressed sets of magic {magic} are nested {depth + 1} deep")


def _highest(inside: list[Message]) -> int:
    """Return the greatest offset in a compressed set of magic 1, which can't contain another set."""
    if any(message[2] & _CODEC for message in inside):
        raise CorruptRecordError("a compressed set of magic 1 has another inside")
    return max(message[0] for message in inside)


def _base_offset(wrapper: Message, last: int, highest: int) -> int:
    """Return the offset that the inner offsets of a compressed set of magic 1 are relative to."""
    # Old versions of librdkafka produce sets with offset 0, since the broker assigns the offsets. Normally the
    # wrapper's offset is the offset of its last inner message.
    base = wrapper[0] - last if wrapper[0] else 0
    if base < 0:
        raise CorruptRecordError(f"the last message inside has the relative offset {last}")
    if highest + base >= INT64_MAX:
        raise CorruptRecordError(f"offset {highest + base} does not fit 64 bits")
    return base


def _stamped(wrapper: Message, inside: list[Message]) -> list[Message]:
    _, _, attributes, appended, _, _ = wrapper
    if not attributes & TIMESTAMP_TYPE:
        return inside
    return [
        (offset, magic, own, appended if magic else timestamp, key, value)
        for offset, magic, own, timestamp, key, value in inside
    ]


def _in_pieces(wrapper: Message, how: _Cutting, depth: int = 1) -> Iterator[list[Message]]:
    """Yield in lists what `_open` returns. Offsets of magic 1 stay relative."""
    empty = True
    unpacked = chunks(*_packed(wrapper), how.largest, how.room)
    for data, _ in cut(unpacked, how.size, how.most, _whole_messages, how.largest):
        if depth > 1:
            how.inner.take(len(data))
        inside = _read_set(bytes(data), how.check_crc)
        del data
        empty = False
        if wrapper[1]:
            yield _stamped(wrapper, inside)
            continue
        flat: list[Message] = []
        for message in inside:
            if not message[2] & _CODEC:
                flat.append(message)
                continue
            _check_depth(message[1], depth)
            if flat:
                yield flat
                flat = []
            # All levels together hold at most twice what the first level does, since each level is limited to half the
            # size of the one above. A message that is larger than that is held while its content is read.
            inner = how._replace(size=how.size // 2, largest=max(how.largest - len(message[5] or b""), 0))
            yield from _in_pieces(message, inner, depth + 1)
        if flat:
            yield flat
    if empty:
        raise CorruptRecordError(_EMPTY)


def _survey(wrapper: Message, how: _Cutting) -> tuple[list[Message] | None, int]:
    """Return the messages of a compressed set of magic 1 if they fit in one list, and what to add to their offsets."""
    lists = last = highest = 0
    inside: list[Message] = []
    for inside in _in_pieces(wrapper, how):
        found = _highest(inside)
        highest = max(highest, found) if lists else found
        last = inside[-1][0]
        lists += 1
    return inside if lists == 1 else None, _base_offset(wrapper, last, highest)


def _whole_messages(data: Bytes, pos: int, size: int, most: int) -> tuple[int, int, int]:
    """Find whole messages, like `scan.whole_records` finds whole records."""
    count = 0
    stop = min(len(data), pos + size)
    while True:
        if len(data) - pos < LOG_OVERHEAD:
            return count, pos, len(data) + 1
        (length,) = _INT32.unpack_from(data, pos + _LENGTH_AT)
        if length < SMALLEST[0]:
            raise CorruptRecordError(f"a message inside has length {length}")
        end = pos + LOG_OVERHEAD + length
        if end > stop or count == most:
            return count, pos, end
        count += 1
        pos = end
