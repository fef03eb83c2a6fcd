"""Fetching a range of offsets of one partition, in a task."""

from __future__ import annotations

import asyncio
import logging
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
from aiokproto.errors import BrokerConnectionError, BrokerError, DeadlineError, error_for
from aiokproto.records import RecordBatch, decode
from aiokproto.records.isolation import visible
from aiokproto.spark.offsets import EARLIEST, DataLossError, OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.planning import CONSUMER, TopicChangedError, list_offsets

logger = logging.getLogger("aiokproto.spark")

BY_NAME = 12
"""The last version of Fetch that names topics; later ones have their ids (KIP-516)."""

_INT32_MAX = (1 << 31) - 1


def deleted(wanted: OffsetRange) -> TopicChangedError:
    """The error for a topic that the cluster does not have any more."""
    return TopicChangedError(
        f"reading {wanted}: the topic does not exist any more: it has been deleted since the read was planned"
    )


class Fetched(NamedTuple):
    """What one response brought.

    Attributes:
        start: The offset that was asked for. The first batch may begin before it: brokers send whole batches.
        batches: Those with records to read, not yet checked. The last one may go beyond the range.
    """

    start: int
    batches: list[RecordBatch]


class RangeFetcher:
    """Fetches one range, a response at a time.

    It is over when the position has reached the range's end, not when so many records were seen: control batches,
    aborted transactions and compaction leave offsets without a record, and a range may end among them.

    Attributes:
        position: The offset to fetch next.
    """

    def __init__(self, cluster: ClusterClient, wanted: OffsetRange, options: ReadOptions) -> None:
        self.position = wanted.start
        self._cluster = cluster
        self._wanted = wanted
        self._options = options
        self._max_bytes = options.fetch.max_bytes
        self._picture = cluster.snapshot.generation

    @property
    def done(self) -> bool:
        """Whether there is nothing more to fetch."""
        return self.position >= self._wanted.end

    async def fetch(self) -> Fetched | None:
        """The next batches with records to read; None once it is over.

        When cancelled, the same batches are fetched next time.

        Raises:
            DeadlineError: Nothing came for ``kafkaConsumer.pollTimeoutMs``. Names the last failure.
            DataLossError: Records of the range are gone, and ``failOnDataLoss`` is set.
            TopicChangedError: The topic was deleted, or replaced by another one of its name.
            CorruptRecordError: A batch's header makes no sense.
            BrokerError: The broker refuses for good.
        """
        clock = asyncio.get_running_loop().time
        give_up, failures = clock() + self._options.poll_timeout, 0
        while not self.done:
            before = self.position
            try:
                if batches := await self._fetch_once(max(give_up - clock(), 0.001)):
                    return Fetched(before, batches)
                problem: object = "the broker has nothing there"
            except (BrokerConnectionError, BrokerError, DeadlineError) as error:
                if isinstance(error, BrokerError) and not error.retriable:
                    raise
                self._cluster.invalidate(str(error))
                problem = error
            if self.position > before:
                give_up, failures = clock() + self._options.poll_timeout, 0
                continue
            if clock() >= give_up:
                raise DeadlineError(
                    f"reading {self._wanted}: nothing came from offset {self.position} on, {self._asked()}, "
                    f"in {self._options.poll_timeout:g} s (kafkaConsumer.pollTimeoutMs): {problem}"
                )
            failures += 1
            await asyncio.sleep(min(self._cluster.backoff(failures), max(give_up - clock(), 0)))
        return None

    async def _fetch_once(self, timeout: float) -> list[RecordBatch]:
        wanted, snapshot = self._wanted, self._cluster.snapshot
        info = snapshot.topics.get(wanted.topic)
        if info is None:
            # It was there when the task began, and goes only when several answers in a row do not have it.
            raise deleted(wanted)
        if info.topic_id != wanted.topic_id and wanted.topic_id != ZERO_UUID:
            self._refuse(info.topic_id, snapshot.generation)
        leader = snapshot.leader(wanted.topic, wanted.partition)
        if leader is None:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"Fetch of {wanted.topic_partition}")
        # A channel of its own: what the broker holds back until there is data would hold back other requests too.
        response = await self._cluster.send(
            self._request(min(self._options.fetch.max_wait_ms, int(timeout * 1000))),
            leader,
            max_version=BY_NAME if wanted.topic_id == ZERO_UUID else None,
            channel="fetch",
        )
        answer = self._answer(response, leader)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._skip_lost()
            return []
        if answer.error_code:
            moved = answer.current_leader
            self._cluster.update_leader(wanted.topic, wanted.partition, moved.leader_id, moved.leader_epoch)
            raise error_for(answer.error_code, self._context(leader))
        return self._take_in(answer)

    def _request(self, max_wait_ms: int) -> FetchRequest:
        wanted, settings = self._wanted, self._options.fetch
        partition = FetchPartition(
            partition=wanted.partition,
            current_leader_epoch=self._cluster.snapshot.leader_epoch(wanted.topic, wanted.partition),
            fetch_offset=self.position,
            partition_max_bytes=self._max_bytes,
        )
        return FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=settings.isolation_level,
            topics=[FetchTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[partition])],
        )

    def _answer(self, response: FetchResponse, leader: int) -> PartitionData:
        if response.error_code:
            raise error_for(response.error_code, self._context(leader))
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.partition_index == self._wanted.partition:
                    return answer
        raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, self._context(leader), "the partition is not in the answer")

    def _take_in(self, answer: PartitionData) -> list[RecordBatch]:
        if not answer.records:
            return []
        batches = list(decode(answer.records, check_crc=False))
        if not batches:
            # Brokers before 0.10.1 cut even the first batch to the size asked for.
            self._max_bytes = min(2 * self._max_bytes, _INT32_MAX)
            return []
        aborted = answer.aborted_transactions if self._options.fetch.read_committed else None
        self.position = max(self.position, batches[-1].next_offset)
        return [one for one in visible(batches, aborted or ()) if one.base_offset < self._wanted.end]

    async def _skip_lost(self) -> None:
        partition = self._wanted.topic_partition
        first = (await list_offsets(self._cluster, {partition: EARLIEST}, self._options))[partition].offset
        if first <= self.position:
            raise DataLossError(
                f"reading {self._wanted}: the log has no offset {self.position} any more, though it begins at {first}: "
                "it was cut off at its end, as after the election of a replica that was not in sync"
            )
        problem = f"reading {self._wanted}: {first - self.position} offsets from {self.position} on were deleted"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{problem}: the log begins at offset {first} (failOnDataLoss=false continues there)")
        logger.warning("%s", problem)
        self.position = first

    def _refuse(self, topic_id: bytes, generation: int) -> None:
        if generation > self._picture:
            raise TopicChangedError(
                f"reading {self._wanted}: the topic's id is {topic_id.hex()}, and was {self._wanted.topic_id.hex()} "
                "when the read was planned: it has been deleted and created again"
            )
        # The picture may be older than the plan: connections are kept from task to task.
        raise error_for(ErrorCode.UNKNOWN_TOPIC_ID, f"Fetch of {self._wanted.topic_partition}")

    def _context(self, leader: int) -> str:
        return f"Fetch of {self._wanted.topic_partition} at offset {self.position} from {self._broker(leader)}"

    def _asked(self) -> str:
        leader = self._cluster.snapshot.leader(self._wanted.topic, self._wanted.partition)
        return "no leader being known" if leader is None else f"asking {self._broker(leader)}"

    def _broker(self, node_id: int) -> str:
        return str(self._cluster.snapshot.brokers.get(node_id, f"broker {node_id}"))
