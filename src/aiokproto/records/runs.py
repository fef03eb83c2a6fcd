"""Adjacent batches that are read together without an object for each: small batches cost more than their records.

A run has plain batches only: magic 2, not compressed, no control batch, not transactional, not empty. Which of the
other batches users see, and how their records are found, depends on each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiokproto.accelerator import twin
from aiokproto.errors import DecodeError
from aiokproto.records.batch import CRC_FROM, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE, RecordBatch
from aiokproto.records.columns import MAX_DATA, Columns, read_spans, read_together
from aiokproto.records.compression import Bytes
from aiokproto.records.crc import crc32c
from aiokproto.records.record_set import decode
from aiokproto.records.scan import Span


@twin
def plain_batches(data: Bytes) -> tuple[list[Span], list[int]]:
    """Return the spans and checksums of the plain batches at the start of a record set, up to any other or cut one."""
    spans: list[Span] = []
    checksums: list[int] = []
    pos = 0
    while len(data) - pos >= HEADER.size:
        base, length, _, magic, crc, flags, last, first_time, newest, _, _, _, count = HEADER.unpack_from(data, pos)
        stop = pos + LOG_OVERHEAD + length
        start = pos + HEADER.size
        if magic != 2 or flags & ~TIMESTAMP_TYPE or count <= 0 or last < 0 or not start <= stop <= len(data):
            break
        spans.append(Span(start, stop, count, base, first_time, newest if flags else None))
        checksums.append(crc)
        pos = stop
    return spans, checksums


class Run:
    """One or more plain batches, one after the other in a record set. Their checksums are not compared.

    Attributes:
        source: The record set.
        spans: Where the records of each batch are in it.
    """

    __slots__ = ("_checksums", "source", "spans")

    magic = 2

    def __init__(self, source: memoryview, spans: Sequence[Span], checksums: Sequence[int]) -> None:
        self.source = source
        self.spans = spans
        self._checksums = checksums

    @property
    def base_offset(self) -> int:
        """The base offset of the first batch."""
        return self.spans[0].base_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self._batch(self.spans[-1]).next_offset

    def before(self, offset: int) -> Run | None:
        """Return the run without the batches from ``offset`` on; None if none is left."""
        if self.spans[-1].base_offset < offset:
            return self
        count = next(n for n, span in enumerate(self.spans) if span.base_offset >= offset)
        return self._part(0, count) if count else None

    def parts(self, size: int, most: int) -> Iterator[Run]:
        """Yield runs of at most ``size`` bytes and ``most`` records; a larger batch is a run by itself."""
        begin, room, records = 0, size, most
        for index, (start, stop, count, *_) in enumerate(self.spans):
            if index > begin and (stop - start > room or count > records):
                yield self._part(begin, index)
                begin, room, records = index, size, most
            room -= stop - start
            records -= count
        yield self._part(begin, len(self.spans))

    def batches(self) -> list[RecordBatch]:
        """Return the batches, each as an object."""
        return [self._batch(span) for span in self.spans]

    def validate(self) -> None:
        """Compare the checksums.

        Raises:
            CorruptRecordError: One does not match.
        """
        source, behind = self.source, HEADER.size - CRC_FROM
        for span, checksum in zip(self.spans, self._checksums, strict=True):
            if crc32c(source[span[0] - behind : span[1]]) != checksum:
                self._batch(span).validate()

    def columns(self) -> Columns:
        """Return the records as columns.

        Raises:
            CorruptRecordError: A batch is damaged.
        """
        try:
            return read_spans(self.source, self.spans)
        except (DecodeError, IndexError):
            # For the message, which names the batch.
            return read_together(self.batches())

    def _part(self, begin: int, end: int) -> Run:
        if end - begin == len(self.spans):
            return self
        return Run(self.source, self.spans[begin:end], self._checksums[begin:end])

    def _batch(self, span: Span) -> RecordBatch:
        return RecordBatch(self.source[span.start - HEADER.size : span.stop])


def decode_run(data: Bytes) -> tuple[Run | None, list[RecordBatch]]:
    """Return the run of plain batches at the start of a record set, and the batches behind it; checksums not compared.

    A truncated batch at the end is ignored, see :func:`~aiokproto.records.record_set.decode`.

    Raises:
        CorruptRecordError: The header of a batch is damaged.
    """
    view = memoryview(data)
    spans, checksums = plain_batches(view) if len(view) <= MAX_DATA else ([], [])
    if not spans:
        return None, list(decode(view, check_crc=False))
    return Run(view, spans, checksums), list(decode(view[spans[-1].stop :], check_crc=False))
