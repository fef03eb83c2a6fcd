"""Append many records, for :meth:`Producer.send_many() <aiokproto.producer.Producer.send_many>`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from aiokproto.errors import InvalidRecordError, KafkaError, MessageTooLargeError
from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.outcomes import Part, RejectedRecords
from aiokproto.producer.record import ProducerRecord
from aiokproto.types import K, V

T = TypeVar("T")

_CHUNK = 1000


async def append_all(
    appender: RecordAppender[K, V],
    topic: str,
    records: Iterable[V | ProducerRecord[K, V]],
    partition: int | None,
) -> list[Part]:
    """Append records. Returns, in order, each record's batch or error.

    Runs of plain values are appended in one call (``_append_run``). An invalid record, or one that is too large, fails
    alone. After any other error all later records fail too, because each would wait for ``max_block_ms`` again.

    Raises:
        InvalidRecordError: ``records`` is not an iterable of records.
    """
    _check_records(records)
    parts: list[Part] = []
    stop: KafkaError | None = None
    for chunk in _chunks(records):
        start = 0
        while start < len(chunk):
            if stop is not None:
                parts.append(RejectedRecords(stop, len(chunk) - start))
                break
            # If a partition is given, append records one at a time: a run goes only to the sticky batch.
            plain = partition is None and not appender._has_pipeline
            run = appender._append_run(topic, chunk, start) if plain else None
            if run is not None:
                parts.append(run)
                start += run.count
                continue
            record = chunk[start]
            start += 1
            value, key, headers, own_partition, timestamp = (
                record if isinstance(record, ProducerRecord) else (record, None, (), None, None)
            )
            own_partition = partition if own_partition is None else own_partition
            try:
                if appender._has_pipeline:
                    delivery = await appender._append_in_pipeline(
                        topic, ProducerRecord(value, key, headers, own_partition, timestamp)
                    )
                else:
                    appended = appender._append(topic, value, key, headers, own_partition, timestamp)  # type: ignore[arg-type]
                    delivery = appended if isinstance(appended, Delivery) else await appender._append_later(appended)
                # Keep a slice instead of the Delivery: the results of millions of records don't need an object each.
                parts.append(delivery.run())
            except (InvalidRecordError, MessageTooLargeError) as error:
                parts.append(RejectedRecords(error))
            except KafkaError as error:
                parts.append(RejectedRecords(error))
                # The topic is unknown, there's no memory, or the producer is closed: see the docstring.
                stop = error
    return parts


def _check_records(records: object) -> None:
    """Reject objects that are iterable by accident: bytes, str, ProducerRecord (a tuple), dict (iterates over its
    keys)."""
    if isinstance(records, bytes | bytearray | memoryview | str | ProducerRecord):
        hint = "; for one record use send()"
    elif isinstance(records, Mapping) or not isinstance(records, Iterable):
        hint = ""
    else:
        return
    raise InvalidRecordError(
        f"records must be an iterable of bytes or ProducerRecord, or a table; got {type(records).__name__}{hint}"
    )


def _chunks(records: Iterable[T]) -> Iterator[Sequence[T]]:
    """Yield ``records`` as sequences. An iterator is read in chunks because it can be larger than memory."""
    if isinstance(records, list | tuple):
        # Pass a list through: copying it would double the memory.
        yield records
        return
    left = iter(records)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk
