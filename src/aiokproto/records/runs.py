"""Adjacent batches that are read together without an object for each batch: small batches cost more than their records.

A run contains only plain batches: magic 2, not compressed, not control batches, not transactional, not empty. For other
batches, whether users see them, and how their records are found, depends on the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import DecodeError
from aiokproto.records.batch import CRC_FROM, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE, RecordBatch
from aiokproto.records.columns import MAX_DATA, Columns, read_spans, read_together
from aiokproto.records.compression import MAX_DECOMPRESSED, Bytes
from aiokproto.records.crc import crc32c
from aiokproto.records.record import MAX_RECORD
from aiokproto.records.record_set import decode
from aiokproto.records.scan import Span, spans_of
from aiokproto.records.varint import INT64_MAX

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from aiokproto.records.scan import Int64s, Spans

    Checksums = npt.NDArray[np.uint32]

_CHECKED = HEADER.size - CRC_FROM
"""Bytes of the header that its checksum covers."""


@has_compiled_form
def plain_batches(data: Bytes) -> tuple[Spans, Checksums]:
    """Return the spans and checksums of the plain batches at the start of a record set."""
    import numpy as np

    spans: list[Span] = []
    checksums: list[int] = []
    pos = 0
    while len(data) - pos >= HEADER.size:
        base, length, _, magic, crc, flags, last, first_time, newest, _, _, _, count = HEADER.unpack_from(data, pos)
        stop = pos + LOG_OVERHEAD + length
        start = pos + HEADER.size
        if magic != 2 or flags & ~TIMESTAMP_TYPE or count <= 0 or last < 0 or not start <= stop <= len(data):
            break
        # Such a batch is damaged. It's read on its own, to raise the error.
        if base >= INT64_MAX - last:
            break
        spans.append(Span(start, stop, count, base, first_time, int(flags != 0), newest))
        checksums.append(crc)
        pos = stop
    return spans_of(spans), np.array(checksums, np.uint32)


@has_compiled_form
def first_damaged(data: Bytes, spans: Spans, checksums: Checksums) -> int | None:
    """Return the index of the first of adjacent batches whose checksum doesn't match, or None if all match.

    Raises:
        IndexError: A span exceeds the data.
        ValueError: The numbers of spans and checksums differ.
    """
    if len(spans) != len(checksums):
        raise ValueError(f"{len(spans)} spans, {len(checksums)} checksums")
    data = memoryview(data)
    for index, (start, stop, checksum) in enumerate(zip(*spans[:, :2].T.tolist(), checksums.tolist(), strict=True)):
        if not _CHECKED <= start <= stop <= len(data):
            raise IndexError(f"batch {index} spans {start} to {stop} of {len(data)} bytes")
        if crc32c(data[start - _CHECKED : stop]) != checksum:
            return index
    return None


class Run:
    """One or more consecutive plain batches in a record set. Their checksums aren't verified.

    Attributes:
        source: The record set.
        spans: Where each batch's records are in the record set.
        max_record: Maximum bytes of a record.
    """

    __slots__ = ("_checksums", "max_record", "source", "spans")

    magic = 2

    def __init__(self, source: memoryview, spans: Spans, checksums: Checksums, max_record: int = MAX_RECORD) -> None:
        self.source = source
        self.max_record = max_record
        self.spans = spans
        self._checksums = checksums

    @property
    def base_offset(self) -> int:
        """The base offset of the first batch."""
        return self._span(0).base_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self._batch(-1).next_offset

    @property
    def size(self) -> int:
        """Size of the records in bytes."""
        return int(self._sizes().sum())

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self._counts().sum())

    @property
    def end(self) -> int:
        """The position after the last batch in the record set."""
        return self._span(-1).stop

    def before(self, offset: int) -> Run | None:
        """Return the run without batches at or after ``offset``, or None if no batch is left."""
        behind = self.spans[:, Span._fields.index("base_offset")] >= offset
        if not behind[-1]:
            return self
        count = int(behind.argmax())
        return self._part(0, count) if count else None

    def parts(self, size: int, most: int) -> Iterator[Run]:
        """Yield runs of at most ``size`` bytes and ``most`` records. A larger batch is a run of its own."""
        sizes, records = self._sizes().cumsum(), self._counts().cumsum()
        start, taken, passed = 0, 0, 0
        while start < len(self.spans):
            fit = sizes.searchsorted(taken + size, "right"), records.searchsorted(passed + most, "right")
            end = max(int(min(fit)), start + 1)
            yield self._part(start, end)
            start, taken, passed = end, int(sizes[end - 1]), int(records[end - 1])

    def batches(self) -> list[RecordBatch]:
        """Return the batches as objects."""
        return [self._batch(index) for index in range(len(self.spans))]

    def validate(self) -> None:
        """Verify the checksums.

        Raises:
            CorruptRecordError: A checksum does not match.
        """
        index = first_damaged(self.source, self.spans, self._checksums)
        if index is not None:
            self._batch(index).validate()

    def columns(self) -> Columns:
        """Return the records as columns.

        Raises:
            CorruptRecordError: A batch is damaged.
        """
        try:
            return read_spans(self.source, self.spans, self.max_record)
        except (DecodeError, IndexError):
            # Read each batch to raise the error again, so it mentions the batch.
            return read_together(self.batches())

    def _sizes(self) -> Int64s:
        start, stop = self.spans.T[:2]
        sizes: Int64s = stop - start
        return sizes

    def _counts(self) -> Int64s:
        return self.spans[:, Span._fields.index("records")]

    def _part(self, start: int, end: int) -> Run:
        if end - start == len(self.spans):
            return self
        return Run(self.source, self.spans[start:end], self._checksums[start:end], self.max_record)

    def _span(self, index: int) -> Span:
        return Span(*self.spans[index].tolist())

    def _batch(self, index: int) -> RecordBatch:
        span = self._span(index)
        return RecordBatch(self.source[span.start - HEADER.size : span.stop], max_record=self.max_record)


def decode_run(
    data: Bytes, *, max_decompressed: int = MAX_DECOMPRESSED, max_record: int = MAX_RECORD
) -> tuple[Run | None, Iterator[RecordBatch]]:
    """Return the run of plain batches at the start of a record set, and the later batches. Doesn't verify checksums.

    A truncated batch at the end is ignored. At a damaged header the iterator raises CorruptRecordError: see
    :func:`~aiokproto.records.record_set.decode`.
    """
    view = memoryview(data)
    rest = partial(decode, check_crc=False, max_decompressed=max_decompressed, max_record=max_record)
    if len(view) > MAX_DATA:
        return None, rest(view)
    spans, checksums = plain_batches(view)
    if not len(spans):
        return None, rest(view)
    run = Run(view, spans, checksums, max_record)
    return run, rest(view[run.end :])
