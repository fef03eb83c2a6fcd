"""Fetches a range of offsets of one partition, in a task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    BrokerConnectionError,
    BrokerError,
    CorruptRecordError,
    DeadlineError,
    UnsupportedCompressionError,
    error_for,
)
from aiokproto.records import RecordBatch
from aiokproto.records.isolation import visible
from aiokproto.records.runs import Run, decode_run
from aiokproto.spark.offsets import EARLIEST, DataLossError, OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.planning import CONSUMER, TopicChangedError, list_offsets

logger = logging.getLogger("aiokproto.spark")

BY_NAME = 12
"""The last version of Fetch that names topics; later versions use topic ids (KIP-516)."""

_INT32_MAX = (1 << 31) - 1

_MIN_BYTES = 1 << 16
_INITIAL_RECORD_SIZE = 1 << 10


def topic_deleted(offsets: OffsetRange) -> TopicChangedError:
    """Return the error for a topic that was deleted after planning."""
    return TopicChangedError(f"reading {offsets}: the topic was deleted after the read was planned")


class Fetched(NamedTuple):
    """The batches of one response.

    Attributes:
        start: The requested offset. Brokers send whole batches, so the first one may start before it.
        batches: The batches with records to read, not yet verified. The last one may extend beyond the range.
    """

    start: int
    batches: list[RecordBatch | Run]


class RangeFetcher:
    """Fetches one range, a response at a time.

    The range is done when the position reaches its end. Counting records wouldn't work because control batches, aborted
    transactions and compaction leave offsets without a record, and a range may end with such offsets.

    Attributes:
        position: The offset to fetch next.
    """

    def __init__(self, cluster: ClusterClient, offsets: OffsetRange, options: ReadOptions) -> None:
        self.position = offsets.start
        self._cluster = cluster
        self._range = offsets
        self._options = options
        self._max_bytes = options.fetch.max_bytes
        # The average bytes of a record, including its share of the batch: a guess at first, then computed from each
        # response.
        self._record_size: float = _INITIAL_RECORD_SIZE
        # Cluster metadata of this generation may be older than the plan; later metadata isn't.
        self._first_generation = cluster.snapshot.generation

    @property
    def done(self) -> bool:
        """Whether the whole range was fetched."""
        return self.position >= self._range.end

    async def fetch(self) -> Fetched | None:
        """Return the next batches with records to read; None once the range is done.

        If it's cancelled, the next call fetches the same batches.

        Raises:
            DeadlineError: The position didn't advance for ``kafkaConsumer.pollTimeoutMs``. The message names the last
                failure.
            DataLossError: Records of the range were deleted, and ``failOnDataLoss`` is set; or the log was truncated.
            TopicChangedError: The topic was deleted, or deleted and created again.
            CorruptRecordError: A batch has an invalid header, or a marker of an aborted transaction is damaged.
            BrokerError: The broker responded with an error that isn't retriable.
        """
        clock = asyncio.get_running_loop().time
        give_up_at, failures = clock() + self._options.poll_timeout, 0
        while not self.done:
            before = self.position
            try:
                if batches := await self._fetch_once(max(give_up_at - clock(), 0.001)):
                    return Fetched(before, batches)
                problem: object = "the response has no records"
            except (BrokerConnectionError, BrokerError, DeadlineError) as error:
                if isinstance(error, BrokerError) and not error.retriable:
                    raise
                self._cluster.metadata.invalidate(str(error))
                problem = error
            if self.position > before:
                give_up_at, failures = clock() + self._options.poll_timeout, 0
                continue
            if clock() >= give_up_at:
                raise DeadlineError(
                    f"reading {self._range}: received no records from offset {self.position} on, {self._source()}, "
                    f"in {self._options.poll_timeout:g} s (kafkaConsumer.pollTimeoutMs): {problem}"
                )
            failures += 1
            await asyncio.sleep(min(self._cluster.backoff.delay(failures), max(give_up_at - clock(), 0)))
        return None

    async def _fetch_once(self, timeout: float) -> list[RecordBatch | Run]:
        offsets, snapshot = self._range, self._cluster.snapshot
        info = snapshot.topics.get(offsets.topic)
        if info is None:
            # The metadata contained the topic when the task started. A topic is dropped only once several responses
            # lack it.
            raise topic_deleted(offsets)
        if info.topic_id != offsets.topic_id and offsets.topic_id != ZERO_UUID:
            self._raise_other_topic(info.topic_id, snapshot.generation)
        leader = snapshot.leader(offsets.topic, offsets.partition)
        if leader is None:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"Fetch of {offsets.topic_partition}")
        # Use a separate connection because a Fetch that the broker holds until it has data would delay the requests
        # behind it.
        response = await self._cluster.send(
            self._request(min(self._options.fetch.max_wait_ms, int(timeout * 1000))),
            leader,
            max_version=BY_NAME if offsets.topic_id == ZERO_UUID else None,
            channel="fetch",
        )
        data = self._partition_data(response, leader)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._skip_deleted()
            return []
        if data.error_code:
            current = data.current_leader
            self._cluster.metadata.update_leader(
                offsets.topic, offsets.partition, current.leader_id, current.leader_epoch, response.node_endpoints
            )
            asked = self._cluster.asked(FetchRequest, offsets.topic)
            raise error_for(data.error_code, self._context(leader), None, asked)
        return self._batches(data)

    def _request(self, max_wait_ms: int) -> FetchRequest:
        offsets, settings = self._range, self._options.fetch
        # A short range must not fetch megabytes beyond its end. If this is too little, another request gets the rest.
        rest = int((offsets.end - self.position) * self._record_size * 1.1)
        max_bytes = min(max(rest, _MIN_BYTES), self._max_bytes)
        partition = FetchPartition(
            partition=offsets.partition,
            current_leader_epoch=self._cluster.snapshot.leader_epoch(offsets.topic, offsets.partition),
            fetch_offset=self.position,
            partition_max_bytes=max_bytes,
        )
        return FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=max_bytes,
            isolation_level=settings.isolation_level,
            topics=[FetchTopic(topic=offsets.topic, topic_id=offsets.topic_id, partitions=[partition])],
        )

    def _partition_data(self, response: FetchResponse, leader: int) -> PartitionData:
        if response.error_code:
            raise error_for(response.error_code, self._context(leader))
        for topic in response.responses:
            for data in topic.partitions:
                if data.partition_index == self._range.partition:
                    return data
        raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, self._context(leader), "the response lacks the partition")

    def _batches(self, data: PartitionData) -> list[RecordBatch | Run]:
        if not data.records:
            return []
        settings, end = self._options.fetch, self._range.end
        run, rest = decode_run(data.records, max_decompressed=settings.max_decompressed, max_record=settings.max_record)
        last: RecordBatch | Run | None = run

        def within() -> Iterator[RecordBatch]:
            nonlocal last
            # Stop at the end of the range: damage beyond it doesn't matter.
            for batch in rest if last is None or last.next_offset < end else ():
                last = batch
                # For a compressed set of magic 1, finding the base offset would require decompression.
                if batch.magic < 2 or batch.base_offset < end:
                    yield batch
                if batch.next_offset >= end:
                    return

        aborted = data.aborted_transactions if settings.read_committed else None
        batches: list[RecordBatch | Run] = []
        if run is not None and (first := run.before(end)):
            batches.append(first)
        try:
            batches += visible(within(), aborted or (), check_crc=settings.check_crcs)
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            raise type(error)(f"reading {self._range}: {error}") from error
        if last is None:
            # Brokers before 0.10.1 truncate even the first batch to the requested size.
            self._max_bytes = min(2 * self._max_bytes, _INT32_MAX)
            self._record_size = min(2 * self._record_size, _INT32_MAX)
        # Without progress, the same batches would be fetched forever, and their records read again.
        if last is None or last.next_offset <= self.position:
            return []
        self._record_size = len(data.records) / (last.next_offset - self.position)
        self.position = last.next_offset
        return batches

    async def _skip_deleted(self) -> None:
        partition = self._range.topic_partition
        first = (await list_offsets(self._cluster, {partition: EARLIEST}, self._options))[partition].offset
        if first <= self.position:
            raise DataLossError(
                f"reading {self._range}: the log no longer has offset {self.position}, although it begins at {first}: "
                "it was truncated, as by an unclean leader election"
            )
        problem = f"reading {self._range}: {first - self.position} offsets from {self.position} on were deleted"
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{problem}: the log begins at offset {first}. Set failOnDataLoss=false to continue there"
            )
        logger.warning("%s", problem)
        self.position = first

    def _raise_other_topic(self, topic_id: bytes, generation: int) -> None:
        if generation > self._first_generation:
            raise TopicChangedError(
                f"reading {self._range}: the topic's id is {topic_id.hex()}, expected {self._range.topic_id.hex()}: "
                "it was deleted and created again after the read was planned"
            )
        # A worker keeps its client from task to task, so the metadata may be older than the plan. A retry refreshes it.
        raise error_for(ErrorCode.UNKNOWN_TOPIC_ID, f"Fetch of {self._range.topic_partition}")

    def _context(self, leader: int) -> str:
        return f"Fetch of {self._range.topic_partition} at offset {self.position} from {self._broker(leader)}"

    def _source(self) -> str:
        leader = self._cluster.snapshot.leader(self._range.topic, self._range.partition)
        return "without a known leader" if leader is None else f"from {self._broker(leader)}"

    def _broker(self, node_id: int) -> str:
        return str(self._cluster.snapshot.brokers.get(node_id, f"broker {node_id}"))
