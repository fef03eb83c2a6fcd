"""Many records at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from aiokproto.errors import InvalidRecordError, KafkaError, MessageTooLargeError
from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.buffer import Buffer
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.outcomes import Part, RejectedRecords
from aiokproto.producer.record import ProducerRecord

_CHUNK = 1000


async def append_all(
    appender: RecordAppender,
    buffer: Buffer,
    topic: str,
    records: Iterable[bytes | ProducerRecord],
    partition: int | None,
) -> list[Part]:
    """Append records. What is returned says of each, in order, where it went, or why it went nowhere."""
    parts: list[Part] = []
    stop: KafkaError | None = None
    for chunk in _chunks(records):
        start = 0
        while start < len(chunk):
            if stop is not None:
                parts.append(RejectedRecords(stop, len(chunk) - start))
                break
            run = appender._append_run(topic, chunk, start) if partition is None else None
            if run is not None:
                parts.append(run)
                start += run.count
                continue
            record = chunk[start]
            start += 1
            value, key, headers, where, timestamp = (
                record if isinstance(record, ProducerRecord) else (record, None, (), None, None)
            )
            try:
                one = appender._append(topic, value, key, headers, partition if where is None else where, timestamp)
                parts.append((one if isinstance(one, Delivery) else await buffer.append(one)).run())
            except (InvalidRecordError, MessageTooLargeError) as error:
                parts.append(RejectedRecords(error))
            except KafkaError as error:
                parts.append(RejectedRecords(error))
                stop = error
    return parts


def _chunks(records: Iterable[bytes | ProducerRecord]) -> Iterator[Sequence[bytes | ProducerRecord]]:
    """``records`` as sequences. An iterator is not consumed at once, as it may yield more than memory holds."""
    if isinstance(records, list | tuple):
        yield records
        return
    left = iter(records)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk
