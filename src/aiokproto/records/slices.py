"""The records of a batch, decoded one slice at a time, so memory depends neither on their number nor on their size.

A batch of a few kilobytes can contain a hundred million records or headers, and become gigabytes. A slice is limited by
the size of its records as objects, since small records take a hundred times as much memory as in the batch. Batches of
normal size are one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from aiokproto.errors import CodecError, CorruptRecordError, KafkaError
from aiokproto.records.compression import Bytes, TooLargeError
from aiokproto.records.cutting import cut, joined
from aiokproto.records.record import HEADER_WEIGHT, Make, read_slice
from aiokproto.records.scan import whole_records

if TYPE_CHECKING:
    from aiokproto.records.batch import RecordBatch
    from aiokproto.records.legacy import LegacyBatch

T = TypeVar("T")
R = TypeVar("R")

_CODEC = 0x07
_HEADER = 61

SLICE_BYTES = 2 << 20
"""Maximum decompressed bytes of a slice, unless it consists of one larger record."""

SLICE_RECORDS = 32 * 1024
"""Maximum records of a slice: 8 MiB of objects, a few milliseconds of decoding."""

SLICE_HEADERS = 64 * 1024
"""Maximum headers of a slice, unless it consists of one record that has more: at most 12 MiB of objects."""

SMALL_BYTES = 128 * 1024
"""Maximum decompressed bytes of a batch that is certain to be one slice: a header takes at least two bytes."""

SMALL_RECORD = SMALL_BYTES + SMALL_BYTES // 2 * HEADER_WEIGHT
"""Maximum size of a record in such a batch, including the weight of its headers."""

QUICK_BYTES = 256 * 1024
"""Maximum decompressed bytes to decode in one step of an event loop: about a millisecond."""

QUICK_RECORDS = 16 * 1024
"""Maximum records to decode in one step of an event loop: a few milliseconds."""


class Slices(Generic[T]):
    """The records of one batch, from the first to the last slice. Call :meth:`read` until ``ended``.

    After an error nothing more can be read, and each call raises the error again.

    Attributes:
        ended: Whether the last slice has been read.
    """

    __slots__ = (
        "_batch",
        "_check_crc",
        "_failure",
        "_first_chunks",
        "_make",
        "_pieces",
        "_quick",
        "_taken",
        "_unpacked",
        "_whole",
        "ended",
    )

    def __init__(
        self,
        batch: RecordBatch,
        make: Make[T],
        *,
        check_crc: bool = False,
        first_chunks: list[Bytes] | None = None,
        unpacked: Iterator[Bytes] | None = None,
    ) -> None:
        """Read a batch, starting at its first record.

        Args:
            batch: The batch.
            make: Builds each record: see :data:`~aiokproto.records.record.Make`.
            check_crc: Whether to verify the checksum before reading anything.
            first_chunks: The first chunks, if the caller has already decompressed them.
            unpacked: The chunks after these.
        """
        self.ended = False
        self._batch = batch
        self._make = make
        self._check_crc = check_crc
        self._unpacked = unpacked
        self._first_chunks = first_chunks or []
        self._taken = sum(map(len, self._first_chunks))
        # True once everything has been decompressed into `_first_chunks`.
        self._whole = False
        self._pieces: Iterator[tuple[list[T], bool]] | None = None
        self._quick: bool | None = None
        self._failure: tuple[type[Exception], str] | None = None

    def is_quick(self) -> bool:
        """Return whether reading takes one short step. To find out, this decompresses up to a megabyte, and keeps it.

        Raises:
            CorruptRecordError, UnsupportedCompressionError: For the same reasons as :meth:`read`.
        """
        if self._quick is None:
            self._quick = self._guarded(self._find_quick)
        return self._quick

    def read(self) -> list[T]:
        """Return the records of the next slice. The last slice may be empty.

        Raises:
            CorruptRecordError: The batch is damaged, or exceeds a limit. The slices before that are valid.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        return self._guarded(self._read_next)

    def _guarded(self, work: Callable[[], R]) -> R:
        """Return what ``work`` returns. If this or an earlier call has failed, raise the error (again)."""
        if self._failure is not None:
            kind, text = self._failure
            raise kind(text)
        try:
            if self._check_crc:
                self._batch.validate()
                # Verify the checksum once, not for each slice.
                self._check_crc = False
            return work()
        except BaseException as error:
            # Don't keep the error itself: its frames refer to this object, and the cycle would keep the decompressed
            # data alive.
            if isinstance(error, KafkaError):
                self._failure = type(error), str(error)
            else:
                self._failure = RuntimeError, f"the batch cannot be read on after {error!r}"
            raise

    def _find_quick(self) -> bool:
        batch = self._batch
        if batch.count > QUICK_RECORDS:
            return False
        # The size is usually known without decompressing anything.
        if not batch.attributes & _CODEC:
            return len(batch.raw) <= QUICK_BYTES
        try:
            return self._decompress(QUICK_BYTES) <= QUICK_BYTES
        except CodecError as error:
            raise named(batch, error) from error.__cause__

    def _read_next(self) -> list[T]:
        batch = self._batch
        try:
            if self._pieces is None:
                # One record can be larger than a slice. Leave it to the cutter, which knows a record's size before
                # reading it.
                largest = batch.max_record
                if batch.count <= SLICE_RECORDS:
                    if not batch.attributes & _CODEC and (size := len(batch.raw)) <= SLICE_BYTES and size <= largest:
                        return self._read_whole(batch.raw[_HEADER:])
                    if self._decompress(SLICE_BYTES) <= min(SLICE_BYTES, largest):
                        return self._read_whole(joined(self._first_chunks))
                self._pieces = self._in_pieces(self._cut())
            records, self.ended = next(self._pieces)
        except CodecError as error:
            raise named(batch, error) from error.__cause__
        return records

    def _decompress(self, size: int) -> int:
        """Decompress until there are more than ``size`` bytes, or until the end. Return how many bytes there are."""
        if self._whole:
            return self._taken
        if self._unpacked is None:
            self._unpacked = self._batch.unpacked()
        taken = self._taken
        while taken <= size and not self._whole:
            chunk = next(self._unpacked, None)
            if chunk is None:
                self._whole = True
            else:
                self._first_chunks.append(chunk)
                taken += len(chunk)
        self._taken = taken
        return taken

    def _read_whole(self, data: Bytes) -> list[T]:
        batch = self._batch
        records, pos = read_slice(
            data, batch.records_header, 0, batch.count, self._make, SLICE_HEADERS, batch.max_record
        )
        done = len(records)
        if done < batch.count:
            self._pieces = self._in_pieces(iter(((memoryview(data)[pos:], batch.count - done),)), done)
        elif pos != len(data):
            raise CorruptRecordError(f"{done} records end at byte {pos} of {len(data)}")
        else:
            self.ended = True
        return records

    def _cut(self) -> Iterator[tuple[Bytes, int]]:
        self._decompress(0)
        assert self._unpacked is not None
        first_chunks, self._first_chunks = self._first_chunks, []
        unpacked = chain(popped(first_chunks), self._unpacked)
        return cut(unpacked, SLICE_BYTES, SLICE_RECORDS, whole_records, self._batch.max_record)

    def _in_pieces(self, pieces: Iterator[tuple[Bytes, int]], done: int = 0) -> Iterator[tuple[list[T], bool]]:
        """Yield slices, and whether each is the last one."""
        batch = self._batch
        total, header = batch.count, batch.records_header
        for piece, count in pieces:
            data = memoryview(piece)
            if done + count > total:
                raise CorruptRecordError(f"more records than the {total} in the header")
            while count:
                records, pos = read_slice(data, header, done, count, self._make, SLICE_HEADERS, batch.max_record)
                done += len(records)
                count -= len(records)
                data = data[pos:]
                # Bytes after the last record are also damage. Detect them before that record is delivered.
                if done == total and (len(data) or next(pieces, None)):
                    raise CorruptRecordError(f"more bytes than its {total} records")
                yield records, done == total
                # Release the slice before the next one is created, or two would be in memory at once.
                del records
            del piece, data
        if done < total:
            raise CorruptRecordError(f"{total} records in the header, {done} in the batch")


class LegacySlices(Slices[T]):
    """The slices of a message set of magic 0 or 1."""

    __slots__ = ("_set", "_whole_set")

    def __init__(self, batch: LegacyBatch, make: Make[T], *, check_crc: bool = False) -> None:
        super().__init__(batch, make, check_crc=check_crc)
        self._set = batch
        # All records of the set, if reading it is quick.
        self._whole_set: list[T] | None = None

    def _find_quick(self) -> bool:
        self._whole_set = self._set.records_within(QUICK_BYTES, self._make)
        return self._whole_set is not None

    def _read_next(self) -> list[T]:
        if self.is_quick():
            assert self._whole_set is not None
            self.ended = True
            return self._whole_set
        if self._pieces is None:
            found = self._set.records_in_pieces(self._make, SLICE_BYTES, SLICE_RECORDS)
            # It's known that a piece was the last one only once there are no more.
            self._pieces = chain(((records, False) for records in found), iter((([], True),)))
        records, self.ended = next(self._pieces)
        return records


def named(batch: RecordBatch, error: CodecError) -> CorruptRecordError:
    """Return an error that mentions its batch, and the option if it's about a limit."""
    # The error becomes the context of the returned one, and its frames hold the decompressed data. So drop them.
    error.__traceback__ = None
    option = " (max_decompressed_bytes)" if isinstance(error, TooLargeError) else ""
    return batch.damage(f"{error}{option}")


def popped(first_chunks: list[Bytes]) -> Iterator[Bytes]:
    """Yield the chunks and drop each from the list, so it can be freed."""
    first_chunks.reverse()
    while first_chunks:
        yield first_chunks.pop()
