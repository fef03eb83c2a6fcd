"""Conversion of fetched batches to Arrow record batches, without a Python object per record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from aiokproto.errors import CorruptRecordError, UnknownTopicError, UnsupportedCompressionError
from aiokproto.records import RecordBatch
from aiokproto.records.pieces import in_pieces
from aiokproto.records.runs import Run
from aiokproto.spark.dead_letters import DeadLetters
from aiokproto.spark.fetching import RangeFetcher, topic_deleted
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.payloads.columns import PayloadDecoder
from aiokproto.spark.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

PLAIN_BYTES = 8 << 20
"""Maximum bytes of records in an Arrow batch. Spark is fastest with about 4 to 8 MB."""

MAX_RECORDS = PLAIN_BYTES >> 6
"""Maximum records in an Arrow batch: the columns of small records need more memory than their bytes."""


def read_range(worker: Worker, offsets: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read a range, and fetch one response ahead.

    Memory holds the response being fetched, the one being decoded, and a decoded piece of it.

    Raises:
        CorruptRecordError: A batch is damaged. The message names partition and offset.
        PayloadError: A key or value isn't in its format, and ``failfast`` is the mode. The message names partition and
            offset.
        RegistryError: The schema registry doesn't have the schema of a record, or doesn't respond.
        KafkaError: See :meth:`RangeFetcher.fetch`; or a dead letter couldn't be written.
    """
    try:
        cluster = worker.cluster(options.connection, offsets.topic)
    except UnknownTopicError:
        raise topic_deleted(offsets) from None
    decoder = PayloadDecoder(worker, options.payloads) if options.payloads else None
    topic = options.dead_letter_topic
    letters = DeadLetters(worker, options, topic) if topic is not None else None
    fetcher = RangeFetcher(cluster, offsets, options)
    pending = worker.start(fetcher.fetch())
    try:
        while fetched := pending.result():
            pending = worker.start(fetcher.fetch())
            yield from to_arrow(fetched.batches, replace(offsets, start=fetched.start), options, decoder, letters)
            # Drop this response now; otherwise the loop would keep it until the next one is complete.
            del fetched
    finally:
        # Spark closes the generator early in a query with LIMIT.
        pending.cancel()


def to_arrow(
    batches: Iterable[RecordBatch | Run],
    offsets: OffsetRange,
    options: ReadOptions,
    decoder: PayloadDecoder | None = None,
    letters: DeadLetters | None = None,
) -> Iterator[pa.RecordBatch]:
    """Verify and decode batches, and leave out records outside the range. Malformed records become dead letters, too.

    The memory in use doesn't depend on the decompressed size of batches: see :func:`in_pieces`.
    """
    try:
        for piece in in_pieces(batches, PLAIN_BYTES, MAX_RECORDS, check_crc=options.fetch.check_crcs):
            columns = piece.between(offsets.start, offsets.end)
            if len(columns):
                batch = columns.to_arrow(
                    offsets.topic, offsets.partition, headers=options.include_headers, columns=options.columns
                )
                if decoder is not None:
                    batch, malformed = decoder.decode(batch, columns.offset, offsets.topic_partition)
                    if letters is not None and malformed:
                        letters.write(columns, malformed, offsets.topic_partition)
                yield batch
                del batch
            # Both reference the bytes of their piece, which must be freed before the next piece is decompressed.
            del piece, columns
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        raise type(error)(f"reading {offsets}: {error}") from error
