"""From fetched batches to Arrow record batches, without a Python object per record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from aiokproto.errors import CorruptRecordError, UnknownTopicError
from aiokproto.records import RecordBatch
from aiokproto.records.pieces import in_pieces
from aiokproto.spark.fetching import RangeFetcher, deleted
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

PLAIN_BYTES = 8 << 20
"""How many bytes of records to make into one Arrow batch. Spark is fastest with about 4 to 8 MB."""

MOST_RECORDS = PLAIN_BYTES >> 6
"""How many records, at most: of small ones the columns take more than the bytes."""


def read_range(worker: Worker, wanted: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read a range, fetching ahead by one response: that one is held, the one being decoded, and a piece of this.

    Raises:
        CorruptRecordError: A batch is damaged; names partition and offset.
        KafkaError: See :meth:`RangeFetcher.fetch`.
    """
    try:
        cluster = worker.cluster(options.connection, wanted.topic)
    except UnknownTopicError:
        raise deleted(wanted) from None
    fetcher = RangeFetcher(cluster, wanted, options)
    pending = worker.start(fetcher.fetch())
    try:
        while fetched := pending.result():
            pending = worker.start(fetcher.fetch())
            yield from to_arrow(fetched.batches, replace(wanted, start=fetched.start), options)
            # Not to be there until the next one is.
            del fetched
    finally:
        # A query with a LIMIT closes the generator early.
        pending.cancel()


def to_arrow(batches: Iterable[RecordBatch], wanted: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Check and decode batches; records outside the range are left out.

    What is held does not depend on how far batches grow when decompressed: see :func:`in_pieces`.
    """
    try:
        for found in in_pieces(batches, PLAIN_BYTES, MOST_RECORDS, check_crc=options.fetch.check_crcs):
            columns = found.between(wanted.start, wanted.end)
            if len(columns):
                yield columns.to_arrow(
                    wanted.topic, wanted.partition, headers=options.include_headers, columns=options.columns
                )
            # They hold the bytes of their piece, which are not to be there beside those of the next one.
            del found, columns
    except CorruptRecordError as error:
        raise CorruptRecordError(f"reading {wanted}: {error}") from error
