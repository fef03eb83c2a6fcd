"""Batches as columns, one piece at a time, so memory doesn't depend on the decompressed size of a batch.

Batches are decompressed in steps and cut at record boundaries. Small batches are read together, as in
:func:`~aiokproto.records.columns.to_columns`. A batch larger than a piece becomes several pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter

from aiokproto.errors import CodecError, CorruptRecordError, KafkaError
from aiokproto.records.batch import CODEC, HEADER, LOG_OVERHEAD, RecordBatch
from aiokproto.records.columns import Columns, Row, columns_of, read_spans, read_together, row, span_of
from aiokproto.records.compression import Bytes
from aiokproto.records.cutting import cut, joined
from aiokproto.records.legacy import LegacyBatch
from aiokproto.records.record import read_records
from aiokproto.records.runs import Run
from aiokproto.records.scan import Span, spans_of, whole_records
from aiokproto.records.slices import named, popped

_BEFORE_RECORDS = HEADER.size - LOG_OVERHEAD
"""Bytes of the header that a batch's length field includes."""

# Each byte of a compressed batch counts as at least this many bytes of a piece.
_PACKED_WEIGHT = 8


def in_pieces(
    batches: Iterable[RecordBatch | Run], size: int, most: int, *, check_crc: bool = False
) -> Iterator[Columns]:
    """Yield the records of ``batches``, in order, as columns of at most ``size`` bytes and ``most`` records.

    A record larger than ``size`` becomes a piece of its own. Reading takes about four times ``size`` of memory, or
    three times the size of such a record, plus the codec's memory: up to 128 MiB for a snappy block or a zstd window.

    Raises:
        CorruptRecordError: A batch is damaged. The batches before it, and its own pieces before the damage, have been
            yielded.
        UnsupportedCompressionError: A codec is unknown or its library is missing.
    """
    for magic, run in groupby(batches, attrgetter("magic")):
        read = _legacy if magic < 2 else _together
        yield from read(run, size, most, check_crc)


def _together(batches: Iterable[RecordBatch | Run], size: int, most: int, check_crc: bool) -> Iterator[Columns]:
    group: list[RecordBatch] = []
    bodies: list[Bytes | None] = []
    room, records = size, most
    first_chunks: list[Bytes] = []
    unpacked: Iterator[Bytes] = iter(())
    try:
        for batch in batches:
            if isinstance(batch, Run):
                yield from _read_group(group, bodies)
                room, records = size, most
                yield from _run(batch, size, most, check_crc)
                continue
            if check_crc:
                batch.validate()
            count = batch.count
            packed = batch.attributes & CODEC
            taken = batch.length - _BEFORE_RECORDS
            # A batch that compaction has emptied keeps its codec, but there's nothing to decompress.
            if not count and (packed or not taken):
                continue
            if packed:
                unpacked = batch.unpacked()
                first_chunks, taken = _first_chunks(batch, unpacked, size)
            # This reads fewer compressed batches together, so decompressed data is still in the processor's cache.
            weight = max(taken, _PACKED_WEIGHT * batch.length) if packed else taken
            alone = taken > min(size, batch.max_record) or count > most
            # If the group is full, read it before this batch joins the next group.
            if alone or weight > room or count > records:
                yield from _read_group(group, bodies)
                room, records = size, most
                if alone:
                    rest = chain(popped(first_chunks), unpacked) if packed else iter((batch.body(),))
                    yield from _read_alone(batch, rest, size, most)
                    continue
            group.append(batch)
            bodies.append(joined(first_chunks) if packed else None)
            room -= weight
            records -= count
    except KafkaError:
        # The records before the damage are intact.
        yield from _read_group(group, bodies)
        raise
    yield from _read_group(group, bodies)


def _read_group(group: list[RecordBatch], bodies: list[Bytes | None]) -> Iterator[Columns]:
    """Read batches together, and empty the lists. If one is damaged, read the batches before it one at a time."""
    batches, opened = group[:], bodies[:]
    group.clear()
    bodies.clear()
    if not batches:
        return
    try:
        found = read_together(batches, opened)
    except CodecError:
        for batch, body in zip(batches, opened, strict=True):
            yield read_together([batch], [body])
        raise
    yield found


def _run(run: Run, size: int, most: int, check_crc: bool) -> Iterator[Columns]:
    for part in run.parts(min(size, run.max_record), most):
        alone = part.size > min(size, run.max_record) or part.records > most
        try:
            if check_crc:
                part.validate()
            found = None if alone else part.columns()
        except CodecError:
            # The records before the damaged batch are intact.
            yield from _together(part.batches(), size, most, check_crc)
            raise
        if found is None:
            (batch,) = part.batches()
            yield from _read_alone(batch, iter((batch.body(),)), size, most)
        else:
            yield found
        # Release the piece before the next one is created, or two would be in memory at once.
        del found


def _first_chunks(batch: RecordBatch, unpacked: Iterator[Bytes], size: int) -> tuple[list[Bytes], int]:
    """Take chunks until they have more than ``size`` bytes or end. Return them and their size."""
    first_chunks: list[Bytes] = []
    taken = 0
    try:
        for chunk in unpacked:
            first_chunks.append(chunk)
            taken += len(chunk)
            if taken > size:
                break
    except CodecError as error:
        raise named(batch, error) from error.__cause__
    return first_chunks, taken


def _read_alone(batch: RecordBatch, unpacked: Iterator[Bytes], size: int, most: int) -> Iterator[Columns]:
    done = 0
    try:
        for data, count in cut(unpacked, size, most, whole_records, batch.max_record):
            if done + count > batch.count:
                raise CorruptRecordError(f"more records than the {batch.count} in the header")
            span = span_of(batch, 0, len(data))._replace(records=count)
            yield _read_piece(data, span, done, batch.max_record)
            done += count
            # Release the piece before the next one is created, or two would be in memory at once.
            del data
        if done < batch.count:
            raise CorruptRecordError(f"{batch.count} records in the header, {done} in the batch")
    except CodecError as error:
        raise named(batch, error) from error.__cause__


def _read_piece(data: Bytes, span: Span, done: int, max_record: int) -> Columns:
    try:
        return read_spans(data, spans_of([span]), max_record)
    except (CodecError, IndexError) as error:
        raise CorruptRecordError(f"after {done} records: {_fault(data, span) or error}") from None


def _fault(data: Bytes, span: Span) -> CodecError | None:
    """Find the damaged record by reading the records one at a time, for the error message."""
    try:
        append_time = span.append_time if span.timestamp_type else None
        read_records(data, span.records, span.base_offset, span.base_timestamp, append_time, lambda *_: None)
    except CodecError as error:
        return error
    return None


def _legacy(batches: Iterable[RecordBatch | Run], size: int, most: int, check_crc: bool) -> Iterator[Columns]:
    """Decode records one at a time, and join the records of several message sets in one piece."""
    rows: list[Row] = []
    kinds: list[int] = []
    room = size
    try:
        for batch in batches:
            assert isinstance(batch, LegacyBatch)
            if check_crc:
                batch.validate()
            for found in batch.records_in_pieces(row, size, most):
                taken = sum(len(key or b"") + len(value or b"") for _, _, key, value, _ in found)
                if rows and (taken > room or len(rows) + len(found) > most):
                    yield columns_of(rows, kinds)
                    rows, kinds, room = [], [], size
                rows += found
                kinds += [batch.timestamp_type] * len(found)
                room -= taken
    except KafkaError:
        # The records before the damage are intact.
        if rows:
            yield columns_of(rows, kinds)
        raise
    if rows:
        yield columns_of(rows, kinds)
