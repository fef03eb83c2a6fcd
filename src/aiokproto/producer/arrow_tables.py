"""Append the rows of Arrow tables without a Python object per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from aiokproto.errors import InvalidRecordError, KafkaError, MessageTooLargeError
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.old_brokers import check_table
from aiokproto.producer.outcome import Outcome
from aiokproto.producer.outcomes import Part, RejectedRecords, ScatteredRecords
from aiokproto.producer.partitioner import check_partition, key_hashes
from aiokproto.producer.queue import TopicQueues
from aiokproto.producer.record import PendingRecord
from aiokproto.records.arrow_extra import require_arrow

if TYPE_CHECKING:
    from aiokproto.records.rows import Int64s, Rows


class SupportsArrow(Protocol):
    """A table with Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def is_table(records: object) -> TypeGuard[SupportsArrow]:
    """Whether ``records`` is a table."""
    return hasattr(records, "__arrow_c_stream__")


class TableAppender:
    """Appends the rows of tables.

    Attributes:
        versions: The brokers' versions if they don't support every feature of a row; None if they do.
    """

    def __init__(self, appender: RecordAppender[Any, Any], buffer: Buffer, session: WriteSession) -> None:
        self._appender = appender
        self._buffer = buffer
        self._session = session
        self.versions: BrokerVersions | None = None

    async def append(self, topic: str, table: SupportsArrow, partition: int | None) -> list[Part]:
        """Append the rows of a table. Returns, in order, the batch or the error of the rows.

        Raises:
            InvalidRecordError: The table lacks a column, or a column has the wrong type. Nothing was appended.
            ImportError: pyarrow or numpy is not installed.
        """
        require_arrow()
        import pyarrow as pa

        from aiokproto.records.rows import from_arrow

        rows: Any = table if isinstance(table, pa.Table | pa.RecordBatch) else pa.table(table)
        parts: list[Part] = []
        try:
            queues = await self._buffer.topic(topic)
        except KafkaError as error:
            return [RejectedRecords(error, len(rows))]
        if partition is not None:
            check_partition(partition, topic, len(queues.queues))
        now = self._appender._now_ms()
        # Check all pieces before appending the first row: a wrong partition in the last one must not leave half the
        # table written.
        pieces = [(piece, self._assigned(queues, piece, partition)) for piece in from_arrow(rows, now)]
        if self.versions is not None:
            try:
                check_table(self.versions, rows, [piece for piece, _ in pieces])
            except KafkaError as error:
                return [RejectedRecords(error, len(rows))]
        stop: KafkaError | None = None
        for piece, assigned in pieces:
            if stop is None:
                scattered, stop = await self._append_rows(queues, piece, assigned)
                parts.append(scattered)
            else:
                parts.append(RejectedRecords(stop, len(piece)))
        return parts

    async def _append_rows(
        self, queues: TopicQueues, rows: Rows, assigned: list[tuple[int | None, Int64s]]
    ) -> tuple[ScatteredRecords, KafkaError | None]:
        """Append rows, partition by partition. Also returns an error if no more records can be appended."""
        import numpy as np

        from aiokproto.records.rows import append_rows

        sources: list[Outcome | KafkaError] = []
        source_of_row = np.empty(len(rows), np.int32)
        index_in_source = np.empty(len(rows), np.int32)
        stop: KafkaError | None = None
        for number, row_numbers in assigned:
            done = 0
            while done < len(row_numbers):
                if stop is not None:
                    source_of_row[row_numbers[done:]] = len(sources)
                    sources.append(stop)
                    break
                # Look this up for every run: other tasks may have run while a row waited for memory. Compare
                # identities, because in the meantime the topic may have been forgotten and have new queues.
                ready = self._appender._ready_topics.get(queues.name) is queues
                # The topic may have been created again with fewer partitions while a row waited for memory.
                ready = ready and (number is None or number < len(queues.queues))
                batch = (queues.sticky if number is None else queues.queues[number]).open if ready else None
                first = 0 if batch is None else batch.count
                written = 0 if batch is None else append_rows(batch, rows, row_numbers[done:])
                if batch is not None and written:
                    chosen = row_numbers[done : done + written]
                    source_of_row[chosen] = len(sources)
                    index_in_source[chosen] = np.arange(first, first + written)
                    sources.append(batch.outcome)
                    done += written
                    continue
                # A row that doesn't fit into the open batch is appended like a single record, which opens the next
                # batch and may wait.
                row = int(row_numbers[done])
                done += 1
                source_of_row[row] = len(sources)
                try:
                    record = _record(queues.name, number, rows, row)
                    delivered = (await self._buffer.append(self._session, record)).run()
                    sources.append(delivered.outcome)
                    index_in_source[row] = delivered.first
                except (InvalidRecordError, MessageTooLargeError) as error:
                    sources.append(error)
                except KafkaError as error:
                    sources.append(error)
                    stop = error
        return ScatteredRecords(sources, source_of_row, index_in_source, rows.timestamp), stop

    def _assigned(self, queues: TopicQueues, rows: Rows, partition: int | None) -> list[tuple[int | None, Int64s]]:
        """Return pairs of a partition (None for the sticky one) and its row numbers, in row order.

        Raises:
            InvalidRecordError: A row specifies a partition that the topic does not have.
        """
        import numpy as np

        from aiokproto.records.rows import NO_PARTITION

        count = len(queues.queues)
        # Copy the column: it's a view of Arrow's memory, which belongs to the caller.
        numbers = np.full(len(rows), NO_PARTITION, np.int64) if rows.partition is None else rows.partition.copy()
        for number in numbers[numbers >= count][:1].tolist():
            check_partition(number, queues.name, count)
        free = numbers == NO_PARTITION
        if partition is not None:
            numbers[free] = partition
        elif self._appender._partitioner is not None:
            for row in free.nonzero()[0].tolist():
                chosen = self._appender._choose_partition(queues, None, rows.key[row], rows.value[row])
                numbers[row] = NO_PARTITION if chosen is None else chosen
        else:
            keyed = free & rows.key.valid
            if keyed.any():
                numbers[keyed] = key_hashes(rows.key)[keyed] % count
        # The sort is stable, so the rows of one partition stay in order.
        order = np.argsort(numbers, kind="stable")
        edges = (np.diff(numbers[order]).nonzero()[0] + 1).tolist()
        groups = np.split(order, edges) if len(order) else []
        found = ((int(numbers[group[0]]), group) for group in groups)
        return [(None if number == NO_PARTITION else number, group) for number, group in found]


def _record(topic: str, partition: int | None, rows: Rows, row: int) -> PendingRecord:
    from aiokproto.records.record import read_headers

    encoded = None if rows.headers is None else rows.headers[row]
    headers = read_headers(encoded, 0)[0] if encoded else ()
    return PendingRecord(topic, partition, int(rows.timestamp[row]), rows.key[row], rows.value[row], headers)
