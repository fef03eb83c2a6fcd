"""From fetched batches to Arrow record batches, without a Python object per record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from aiokproto.errors import CorruptRecordError
from aiokproto.records import RecordBatch
from aiokproto.records.columns import to_columns
from aiokproto.spark.fetching import RangeFetcher
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

PLAIN_BYTES = 8 << 20
COMPRESSED_BYTES = 1 << 20
"""How much, as stored, to make into one Arrow batch. Spark is fastest with about 4 to 8 MB."""


def read_range(worker: Worker, wanted: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read a range, fetching ahead by one response.

    Raises:
        CorruptRecordError: A batch is damaged; names partition and offset.
        KafkaError: See :meth:`RangeFetcher.fetch`.
    """
    fetcher = RangeFetcher(worker.cluster(options.connection, wanted.topic), wanted, options)
    pending = worker.start(fetcher.fetch())
    try:
        while fetched := pending.result():
            pending = worker.start(fetcher.fetch())
            yield from to_arrow(fetched.batches, replace(wanted, start=fetched.start), options)
    finally:
        # A query with a LIMIT closes the generator early.
        pending.cancel()


def to_arrow(batches: Iterable[RecordBatch], wanted: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Check and decode batches; records outside the range are left out."""
    for group in grouped(batches):
        try:
            if options.fetch.check_crcs:
                for batch in group:
                    batch.validate()
            columns = to_columns(group).between(wanted.start, wanted.end)
            if len(columns):
                yield columns.to_arrow(
                    wanted.topic, wanted.partition, headers=options.include_headers, columns=options.columns
                )
        except CorruptRecordError as error:
            raise CorruptRecordError(f"reading {wanted}: {error}") from error


def grouped(batches: Iterable[RecordBatch]) -> Iterator[list[RecordBatch]]:
    """Batches in groups of a size that is good for Spark, guessing what compressed ones will grow to."""
    group: list[RecordBatch] = []
    room = PLAIN_BYTES
    for batch in batches:
        size = batch.size_in_bytes
        if batch.attributes & 7:
            size *= PLAIN_BYTES // COMPRESSED_BYTES
        if group and size > room:
            yield group
            group, room = [], PLAIN_BYTES
        group.append(batch)
        room -= size
    if group:
        yield group
