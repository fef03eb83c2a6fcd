"""Many records at once: lists, streams and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

from aiokproto.errors import InvalidRecordError, KafkaError, MessageTooLargeError
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.outcome import Outcome
from aiokproto.producer.outcomes import Part, Refused, Scattered
from aiokproto.producer.partitioner import check_partition, key_hashes
from aiokproto.producer.posting import Posting
from aiokproto.producer.queue import TopicQueues
from aiokproto.producer.record import ProducerRecord, Unplaced

if TYPE_CHECKING:
    from aiokproto.records.rows import Int64s, Rows

_CHUNK = 1000


class SupportsArrow(Protocol):
    """A table that can be had as Arrow, by its PyCapsule protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class Bulk(Posting):
    """Writes records one after the other to open batches."""

    async def _topic(self, topic: str) -> TopicQueues:
        """The queues of a topic, asked for if need be."""
        raise NotImplementedError

    async def _place_all(
        self, topic: str, records: Iterable[bytes | ProducerRecord] | SupportsArrow, partition: int | None
    ) -> list[Part]:
        """Buffer records. What is returned says of each, in order, where it went, or why it went nowhere."""
        if _is_table(records):
            return await self._place_table(topic, records, partition)
        placed: list[Part] = []
        stop: KafkaError | None = None
        for chunk in _chunks(cast("Iterable[bytes | ProducerRecord]", records)):
            start = 0
            while start < len(chunk):
                if stop is not None:
                    placed.append(Refused(stop, len(chunk) - start))
                    break
                run = self._place_run(topic, chunk, start) if partition is None else None
                if run is not None:
                    placed.append(run)
                    start += run.count
                    continue
                record = chunk[start]
                start += 1
                value, key, headers, where, timestamp = (
                    record if isinstance(record, ProducerRecord) else (record, None, (), None, None)
                )
                try:
                    one = self._place(topic, value, key, headers, partition if where is None else where, timestamp)
                    placed.append((one if isinstance(one, Delivery) else await self._wait_place(one)).run())
                except (InvalidRecordError, MessageTooLargeError) as error:
                    placed.append(Refused(error))
                except KafkaError as error:
                    placed.append(Refused(error))
                    stop = error
        return placed

    async def _place_table(self, topic: str, table: SupportsArrow, partition: int | None) -> list[Part]:
        import pyarrow as pa

        from aiokproto.records.rows import from_arrow

        rows: Any = table if isinstance(table, pa.Table | pa.RecordBatch) else pa.table(table)
        placed: list[Part] = []
        try:
            queues = await self._topic(topic)
        except KafkaError as error:
            return [Refused(error, len(rows))]
        if partition is not None:
            check_partition(partition, topic, len(queues.queues))
        pieces = [(piece, self._assigned(queues, piece, partition)) for piece in from_arrow(rows, self._now_ms())]
        stop: KafkaError | None = None
        for piece, assigned in pieces:
            if stop is None:
                scattered, stop = await self._place_rows(queues, piece, assigned)
                placed.append(scattered)
            else:
                placed.append(Refused(stop, len(piece)))
        return placed

    async def _place_rows(
        self, queues: TopicQueues, rows: Rows, assigned: list[tuple[int | None, Int64s]]
    ) -> tuple[Scattered, KafkaError | None]:
        """Buffer rows, partition by partition. The error is what keeps all further records from being buffered."""
        import numpy as np

        from aiokproto.records.rows import append_rows

        where: list[Outcome | KafkaError] = []
        which = np.empty(len(rows), np.int32)
        index = np.empty(len(rows), np.int32)
        stop: KafkaError | None = None
        for number, places in assigned:
            done = 0
            while done < len(places):
                if stop is not None:
                    which[places[done:]] = len(where)
                    where.append(stop)
                    break
                open_to_all = queues.name in self._known
                batch = (queues.sticky if number is None else queues.queues[number]).open if open_to_all else None
                first = 0 if batch is None else batch.count
                written = 0 if batch is None else append_rows(batch, rows, places[done:])
                if batch is not None and written:
                    chosen = places[done : done + written]
                    which[chosen] = len(where)
                    index[chosen] = np.arange(first, first + written)
                    where.append(batch.outcome)
                    done += written
                    continue
                place = int(places[done])
                done += 1
                which[place] = len(where)
                try:
                    one = (await self._wait_place(_record(queues.name, number, rows, place))).run()
                    where.append(one.outcome)
                    index[place] = one.first
                except (InvalidRecordError, MessageTooLargeError) as error:
                    where.append(error)
                except KafkaError as error:
                    where.append(error)
                    stop = error
        return Scattered(where, which, index, rows.timestamp), stop

    def _assigned(self, queues: TopicQueues, rows: Rows, partition: int | None) -> list[tuple[int | None, Int64s]]:
        """Partitions, None for any, and the numbers of the rows that go there, in their order.

        Raises:
            InvalidRecordError: A row is for a partition that the topic has not.
        """
        import numpy as np

        from aiokproto.records.rows import NO_PARTITION

        count = len(queues.queues)
        numbers = np.full(len(rows), NO_PARTITION, np.int64) if rows.partition is None else rows.partition.copy()
        for number in numbers[numbers >= count][:1].tolist():
            check_partition(number, queues.name, count)
        free = numbers == NO_PARTITION
        if partition is not None:
            numbers[free] = partition
        elif self._partitioner is not None:
            for place in free.nonzero()[0].tolist():
                chosen = self._choose(queues, None, rows.key[place], rows.value[place])
                numbers[place] = NO_PARTITION if chosen is None else chosen
        else:
            keyed = free & rows.key.valid
            if keyed.any():
                numbers[keyed] = key_hashes(rows.key)[keyed] % count
        order = np.argsort(numbers, kind="stable")
        edges = (np.diff(numbers[order]).nonzero()[0] + 1).tolist()
        groups = np.split(order, edges) if len(order) else []
        found = ((int(numbers[group[0]]), group) for group in groups)
        return [(None if number == NO_PARTITION else number, group) for number, group in found]


def _record(topic: str, partition: int | None, rows: Rows, place: int) -> Unplaced:
    from aiokproto.records.record import read_headers

    encoded = None if rows.headers is None else rows.headers[place]
    headers = read_headers(encoded, 0)[0] if encoded else ()
    return Unplaced(topic, partition, int(rows.timestamp[place]), rows.key[place], rows.value[place], headers)


def _is_table(records: object) -> TypeGuard[SupportsArrow]:
    return hasattr(records, "__arrow_c_stream__")


def _chunks(records: Iterable[bytes | ProducerRecord]) -> Iterator[Sequence[bytes | ProducerRecord]]:
    """``records`` as sequences; those that are none are not taken whole, as they may be larger than memory."""
    if isinstance(records, list | tuple):
        yield records
        return
    left = iter(records)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk
