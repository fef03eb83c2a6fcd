"""Messages of magic 0 and 1, as Kafka stored and sent them before 0.11.

A *message set* is a row of messages, each with its own offset and checksum. Compressed ones form a set of their own,
which is the value of a message around them, the wrapper: its offset is that of the last message inside. Offsets inside
are absolute in magic 0 and relative to the first message in magic 1. Magic 1 (KIP-32) brought timestamps; where the
broker sets them (LogAppendTime) the wrapper's counts for all messages inside.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from aiokproto.errors import CodecError, CorruptRecordError
from aiokproto.records.batch import LOG_OVERHEAD, MAGIC_AT, TIMESTAMP_TYPE, RecordBatch
from aiokproto.records.compression import MAX_DECOMPRESSED, Budget, Bytes, Compression
from aiokproto.records.lz4_v0 import from_v0
from aiokproto.records.record import Make
from aiokproto.records.varint import INT64_MAX
from aiokproto.types import TimestampType

T = TypeVar("T")

SMALLEST = (14, 22)
"""What ``length`` of a message of magic 0, 1 is at least: with neither key nor value."""

_HEAD = struct.Struct(">qiIBB")
_CODEC = 0x07
_TIMESTAMP_AT = 18
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_CHECKS = struct.Struct(">8xiIB")
_V0 = struct.Struct(">q9xBi")
_V1 = struct.Struct(">q9xBqi")

# Kafka 0.8 itself wrote one level, but read any number.
_DEEPEST = 8


Message = tuple[int, int, int, int, bytes | None, bytes | None]
"""Offset, magic, attributes, timestamp, key and value, which is a message set if the attributes name a codec."""


class LegacyBatch(RecordBatch):
    """A message of magic 0 or 1 that is not inside another: one record, or a compressed set of them.

    It has the face of :class:`~aiokproto.records.batch.RecordBatch`. What these formats lack has the value for "none":
    there are no producers, transactions, control batches or leader epochs. ``base_offset``, ``last_offset_delta`` and
    ``count`` of a compressed set are not in its header: asking for the first of them opens it.

    Attributes:
        offset: The message's own offset: of its only record, or of the last one.
        check_crc: Whether the messages inside have their checksums compared when they are read.
    """

    __slots__ = ("check_crc", "offset")

    offset: int
    partition_leader_epoch = -1
    producer_id = -1
    producer_epoch = -1
    base_sequence = -1

    def __init__(self, raw: Bytes, *, max_decompressed: int = MAX_DECOMPRESSED, check_crc: bool = True) -> None:
        """View ``raw``, which must be exactly one message. Its checksum is not looked at: see :meth:`validate`.

        Raises:
            CorruptRecordError: It is no complete message of magic 0 or 1.
        """
        self.raw = self.source = memoryview(raw)
        self.position = 0
        self.max_decompressed = max_decompressed
        self.check_crc = check_crc
        size = len(self.raw)
        if size < LOG_OVERHEAD + SMALLEST[0]:
            raise CorruptRecordError(f"a message takes at least {LOG_OVERHEAD + SMALLEST[0]} bytes, here are {size}")
        self.offset, self.length, self.crc, self.magic, self.attributes = _HEAD.unpack_from(self.raw)
        if self.magic > 1:
            raise self._corrupt(f"magic is {self.magic}, neither 0 nor 1")
        if self.length + LOG_OVERHEAD != size:
            raise self._corrupt(f"says {self.length + LOG_OVERHEAD} bytes where there are {size}")
        if self.length < SMALLEST[self.magic]:
            raise self._corrupt(f"length {self.length} is too small for magic {self.magic}")
        self.base_timestamp = self.max_timestamp = _INT64.unpack_from(self.raw, _TIMESTAMP_AT)[0] if self.magic else -1
        if not self.attributes & _CODEC:
            self.base_offset = self.offset
            self.last_offset_delta = 0
            self.count = 1

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> int:
            """Open the set when one of the slots is asked for that were left empty."""
            if name not in ("base_offset", "count", "last_offset_delta"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            offsets = self.records(lambda offset, *_: offset)
            self.base_offset = offsets[0]
            self.count = len(offsets)
            self.last_offset_delta = self.offset - offsets[0]
            return getattr(self, name)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps; messages of magic 0 have none."""
        if not self.magic:
            return TimestampType.NO_TIMESTAMP
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """False: there were no transactions."""
        return False

    @property
    def is_control(self) -> bool:
        """False: there were no control records."""
        return False

    @property
    def has_delete_horizon(self) -> bool:
        """False: there was none."""
        return False

    @property
    def last_offset(self) -> int:
        """Offset of the last record; known without opening a compressed set."""
        return self.offset

    @property
    def next_offset(self) -> int:
        """The offset to go on from after this; known without opening a compressed set."""
        return self.offset + 1

    def validate(self) -> None:
        """Compare the checksum, and those of the messages inside when they are read from now on.

        Raises:
            CorruptRecordError: It does not fit the bytes.
        """
        self.check_crc = True
        actual = zlib.crc32(self.raw[MAGIC_AT:])
        if actual != self.crc:
            raise self._corrupt(f"checksum is {actual:#010x} but should be {self.crc:#010x}")

    def body(self) -> Bytes:
        """The message set inside, decompressed; where nothing is compressed, the message itself.

        Raises:
            CorruptRecordError: It cannot be decompressed, or not within ``max_decompressed`` bytes.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        if not self.attributes & _CODEC:
            return self.raw
        try:
            return _unpack(self._message(), Budget(self.max_decompressed))
        except CodecError as error:
            raise self._corrupt(error) from error.__cause__

    def records(self, make: Make[T]) -> list[T]:
        """Read all records, each built by ``make(offset, timestamp, key, value, headers)``, ``headers`` being empty.

        Raises:
            CorruptRecordError: The message, or one inside, is damaged.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        try:
            messages = [self._message()]
            if self.attributes & _CODEC:
                messages = _open(messages[0], Budget(self.max_decompressed), self.check_crc)
        except CodecError as error:
            raise self._corrupt(error) from error.__cause__
        return [make(offset, timestamp, key, value, ()) for offset, _, _, timestamp, key, value in messages]

    def _message(self) -> Message:
        return _read(bytes(self.raw), 0, len(self.raw))

    def __repr__(self) -> str:
        return (
            f"LegacyBatch(offset={self.offset}, magic={self.magic}, size_in_bytes={self.size_in_bytes}, "
            f"attributes={self.attributes:#x})"
        )

    def _corrupt(self, why: object) -> CorruptRecordError:
        return CorruptRecordError(f"message at offset {self.offset}: {why}")


def _read(data: bytes, pos: int, end: int) -> Message:
    """The message that lies between ``pos`` and ``end``."""
    magic = data[pos + MAGIC_AT]
    if magic:
        offset, attributes, timestamp, size = _V1.unpack_from(data, pos)
        pos += _V1.size
    else:
        offset, attributes, size = _V0.unpack_from(data, pos)
        timestamp = -1
        pos += _V0.size
    key = value = None
    if size >= 0:
        key = data[pos : (pos := pos + size)]
    try:
        (value_size,) = _INT32.unpack_from(data, pos)
    except struct.error:
        raise CorruptRecordError(f"its key, of {size} bytes, goes beyond its end") from None
    pos += 4
    if value_size >= 0:
        value = data[pos : (pos := pos + value_size)]
    # Lengths need no check of their own: where one is wrong, this is not the end.
    if pos != end:
        raise CorruptRecordError(f"its key and value end at byte {pos} but should end at {end}")
    return offset, magic, attributes, timestamp, key, value


def _read_set(data: bytes, check_crc: bool) -> Iterator[Message]:
    pos = 0
    while pos < len(data):
        if len(data) - pos < LOG_OVERHEAD + SMALLEST[0]:
            raise CorruptRecordError(f"the set inside ends within a message, at byte {len(data)}")
        length, crc, magic = _CHECKS.unpack_from(data, pos)
        if magic > 1:
            raise CorruptRecordError(f"the message inside at byte {pos} has magic {magic}")
        end = pos + LOG_OVERHEAD + length
        if length < SMALLEST[magic] or end > len(data):
            raise CorruptRecordError(f"the message inside at byte {pos} has length {length}")
        if check_crc and (actual := zlib.crc32(data[pos + MAGIC_AT : end])) != crc:
            raise CorruptRecordError(
                f"the message inside at byte {pos}: checksum is {actual:#010x} but should be {crc:#010x}"
            )
        yield _read(data, pos, end)
        pos = end


def _unpack(wrapper: Message, budget: Budget) -> bytes:
    _, magic, attributes, _, _, packed = wrapper
    if packed is None:
        raise CorruptRecordError("it is compressed but has no value")
    codec = Compression.of(attributes)
    if codec is Compression.ZSTD:
        raise CorruptRecordError(f"zstd, which magic {magic} does not have (KIP-110)")
    if codec is Compression.LZ4 and not magic:
        return budget.decompress(codec, from_v0(packed))
    return budget.decompress(codec, packed)


def _open(wrapper: Message, budget: Budget, check_crc: bool, depth: int = 1) -> list[Message]:
    """The messages in ``wrapper``, with absolute offsets and the timestamps that count."""
    inside = list(_read_set(_unpack(wrapper, budget), check_crc))
    if not inside:
        raise CorruptRecordError("there is no message in the compressed set")
    if wrapper[1]:
        return _absolute(wrapper, inside)
    flat: list[Message] = []
    for message in inside:
        _, magic, attributes, *_ = message
        if not attributes & _CODEC:
            flat.append(message)
            continue
        # In magic 0 offsets are absolute at every depth; with relative ones nesting has no meaning.
        if magic or depth == _DEEPEST:
            raise CorruptRecordError(f"compressed sets of magic {magic} are nested {depth + 1} deep")
        flat += _open(message, budget, check_crc, depth + 1)
    return flat


def _absolute(wrapper: Message, inside: list[Message]) -> list[Message]:
    offset_of_last, _, attributes, appended, _, _ = wrapper
    appends = attributes & TIMESTAMP_TYPE
    last = inside[-1][0]
    # Old versions of librdkafka send 0 for what a broker is to number anyway.
    base = offset_of_last - last if offset_of_last else 0
    if base < 0:
        raise CorruptRecordError(f"the last message inside has the relative offset {last}")
    found: list[Message] = []
    for offset, magic, attributes, timestamp, key, value in inside:
        if attributes & _CODEC:
            raise CorruptRecordError("a compressed set of magic 1 has another inside")
        offset += base
        if not -INT64_MAX <= offset <= INT64_MAX:
            raise CorruptRecordError(f"offset {offset} does not fit 64 bits")
        found.append((offset, magic, attributes, appended if appends and magic else timestamp, key, value))
    return found
