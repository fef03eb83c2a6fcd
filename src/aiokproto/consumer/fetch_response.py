"""Handling of Fetch responses: buffer the records of each partition, and handle each partition's error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse, NodeEndpoint, PartitionData
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.epochs import EpochEnd
from aiokproto.consumer.fetch_request import FetchConfig
from aiokproto.consumer.fetch_session import FetchPosition
from aiokproto.consumer.offsets import MISSING_FOR, why_missing
from aiokproto.consumer.position_resolver import PositionResolver
from aiokproto.consumer.position_validator import PositionValidator
from aiokproto.consumer.start_lookup import ResetReason
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import CorruptRecordError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.fetched.chunk import BufferedBytes, Chunk, chunks, record_count
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.observe.observers import ConsumerObserver
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.fetcher import Fetcher

log = logging.getLogger("aiokproto.fetch")

REPLICA_FOR = 300.0
"""Seconds until the client asks the leader again which replica it prefers. Like the Java client, it uses the default
maximum metadata age."""

_AROUND_RECORDS = 1024
"""Upper bound on the bytes for one partition in a response, not counting records."""


class FetchResponseHandler:
    """Handles responses.

    A partition's part of a response is dropped if, since the request, the application has sought, or another broker has
    become responsible for it.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        cluster: ClusterClient,
        assignment: Assignment,
        config: FetchConfig,
        resolver: PositionResolver,
        validator: PositionValidator,
    ) -> None:
        """Create a handler.

        Args:
            fetcher: Reassigns partitions that have to be fetched from another broker, later, or not at all.
            cluster: The cluster's metadata.
            assignment: The partitions.
            config: The options.
            resolver: Resets positions that aren't in the log.
            validator: Decides what to do if a leader's log doesn't contain everything that was fetched.
        """
        self._cluster = cluster
        self._assignment = assignment
        self._config = config
        self._fetcher = fetcher
        self._resolver = resolver
        self._validator = validator
        self.leaders_until = 0.0
        """Until this loop time all partitions are fetched from leaders, because a follower didn't serve one."""
        self.results = 0
        """The number of partitions whose result was something other than records, such as an error code."""

    @property
    def observer(self) -> ConsumerObserver:
        """Counts fetches."""
        return self._assignment.observer

    async def handle(
        self,
        node: int,
        response: FetchResponse,
        requested: Mapping[TopicPartition, FetchPosition],
        names: Callable[[bytes], str],
        cursors: Mapping[TopicPartition, Cursor],
        buffered: BufferedBytes,
    ) -> list[TopicPartition]:
        """Handle a response.

        Args:
            node: The broker's id.
            response: Its response.
            requested: The partitions that were requested.
            names: Returns the name of a topic, given its id.
            cursors: The partitions that are fetched from this broker now.
            buffered: The counter of received bytes.

        Returns:
            The partitions that the next request has to fetch from a different offset.
        """
        # Use one time slice for the whole response: a thousand partitions must not hold up the event loop.
        time_slice, moved = TimeSlice(), []
        for topic in response.responses:
            name = topic.topic or names(topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                cursor, wanted = cursors.get(partition), requested.get(partition)
                # Drop it silently: the code that changed the cursor has already requested what it needs.
                if cursor is None or wanted is None or not _is_current(cursor, wanted):
                    continue
                if data.error_code:
                    self._refused(node, cursor, data, response.node_endpoints)
                elif await self._accepted(node, cursor, wanted, data, cursors, buffered, time_slice):
                    moved.append(partition)
                await time_slice.pause()
        return moved

    async def _accepted(
        self,
        node: int,
        cursor: Cursor,
        wanted: FetchPosition,
        data: PartitionData,
        cursors: Mapping[TopicPartition, Cursor],
        buffered: BufferedBytes,
        time_slice: TimeSlice,
    ) -> bool:
        """Buffer the records of a partition. Return whether the offset to fetch next has changed."""
        fetch = cursor.fetch
        # Even a response without records shows that the broker serves the partition.
        fetch.succeeded()
        fetch.high_watermark = data.high_watermark
        fetch.last_stable_offset = data.last_stable_offset
        fetch.log_start_offset = data.log_start_offset
        # The leader compares epochs before it reads, so such a response has no records.
        if data.diverging_epoch.epoch >= 0:
            end = EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            self._validator.found(cursor, wanted.last_epoch, end, wanted.leader_epoch)
            fetch.moves += 1
            # After an unclean election, the log diverges once. If it diverges again from what it has just agreed to,
            # don't ask it all the time.
            if fetch.moves > 1:
                pause = self._cluster.backoff.delay(fetch.moves - 1)
                fetch.failed("the leader's log diverges again", asyncio.get_running_loop().time() + pause)
                self._fetcher.place_again(cursor)
            self.results += 1
            return False
        fetch.moves = 0
        if data.preferred_read_replica >= 0:
            fetch.replica = (data.preferred_read_replica, asyncio.get_running_loop().time() + REPLICA_FOR)
            self._fetcher.place_again(cursor)
            self.results += 1
        # There are no records if the leader names a replica (KIP-392), or if the long poll has ended.
        if not data.records:
            return False
        aborted = data.aborted_transactions or [] if self._config.read_committed else []
        uncut = chunks(
            cursor.partition,
            wanted.offset,
            memoryview(data.records),
            aborted,
            control=self._config.control_records,
            check_crc=self._config.check_crcs,
            limits=self._config.limits,
        )
        for chunk in uncut:
            # Check this for each chunk: during pause() below, the application may seek.
            if cursor.version != wanted.version or fetch.offset != chunk.position:
                return False
            if cursors.get(cursor.partition) is not cursor:
                # During pause() the partition was moved to another broker, which fetches from this offset.
                return False
            # Compare with the size in this request: an earlier request for the larger size may have failed.
            if chunk.wanted_size > wanted.max_bytes and self._has_room_for(chunk):
                # Don't buffer anything. The offset stays, and the partition is requested again on its own.
                fetch.wanted_size = chunk.wanted_size
                return True
            observer = self._assignment.observer
            observer.bytes += chunk.size
            if observer.hooks.batch_fetched is not None and chunk.batches:
                count = record_count(chunk.batches, chunk.position)
                observer.fetched(node, cursor.partition, chunk.position, count, chunk.size)
            cursor.received(chunk, buffered)
            if chunk.damage is not None:
                self._fetcher.place_again(cursor)
            # Report each chunk immediately: the application can read it while the rest is being cut.
            self._assignment.arrived(cursor)
            await time_slice.pause()
        return True

    def _has_room_for(self, chunk: Chunk) -> bool:
        """Return whether a batch that the broker has cut fits into a response. If it doesn't, the chunk ends with an
        error."""
        limit = self._cluster.config.max_response_size
        if chunk.wanted_size <= limit - _AROUND_RECORDS:
            return True
        chunk.damage = error_for(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{chunk.partition} at offset {chunk.position}",
            f"the batch there takes {chunk.wanted_size} bytes, which exceeds max_response_size={limit}",
        )
        return False

    def _refused(self, node: int, cursor: Cursor, data: PartitionData, endpoints: list[NodeEndpoint]) -> None:
        """Handle a partition's error code."""
        self.results += 1
        code, fetch = ErrorCode(data.error_code), cursor.fetch
        context = f"Fetch of {cursor.partition} at offset {fetch.offset} from broker {node}"
        asked = self._cluster.asked(FetchRequest, cursor.partition.topic)
        # Use the current replica: only a follower's refusal sends the client back to the leader.
        action = classify(code, Situation(FetchRequest.api_key, follower=fetch.replica is not None))
        if action is Action.STOP:
            raise error_for(code, context, None, asked)
        if action is Action.FAIL:
            damaged = code is ErrorCode.CORRUPT_MESSAGE
            error: KafkaError = (
                CorruptRecordError(f"{context}: the broker reports that its log is damaged")
                if damaged
                else error_for(code, context, None, asked)
            )
            self._assignment.fail(cursor, error)
        elif action is Action.RESET_OFFSET:
            # Buffered records are valid and are delivered first. After the backoff, the broker will reject the offset
            # again.
            if not self._resolver.reset(cursor, ResetReason.OUT_OF_RANGE):
                self.back_off(cursor, code.name)
        elif action is Action.FETCH_FROM_LEADER:
            self._leave_follower(node, cursor, code)
        else:
            leader = data.current_leader
            # KIP-951 added the field in version 12. In earlier versions it's -1.
            if leader.leader_id >= 0:
                self._cluster.metadata.update_leader(
                    *cursor.partition, leader.leader_id, leader.leader_epoch, endpoints
                )
            self._wait_for_leader(cursor, code, f"{context}: {code.name}", action)

    def _leave_follower(self, node: int, cursor: Cursor, code: ErrorCode) -> None:
        # guard: a follower that does not serve is left
        cursor.fetch.replica = None
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # The follower may lag, so only the leader knows whether the offset is in the log (KIP-392).
            self._fetcher.place_again(cursor)
        else:
            self.back_off(cursor, code.name)
        # The leader cannot know about this, and would name the same follower again and again.
        self.avoid_followers(node)

    def avoid_followers(self, node: int) -> None:
        """Fetch from leaders for a while: a preferred replica cannot be reached or doesn't serve a partition."""
        log.info("fetching from leaders: broker %d, a preferred replica, does not serve", node)
        self.leaders_until = asyncio.get_running_loop().time() + REPLICA_FOR

    def _wait_for_leader(self, cursor: Cursor, code: ErrorCode, what: str, action: Action) -> None:
        if action in (Action.REFRESH_METADATA, Action.VALIDATE_OFFSET):
            self._cluster.metadata.invalidate(what)
        if code in _MISSING:
            self.missing(cursor, code)
        else:
            cursor.fetch.missing_since = None
        if cursor.error is None:
            self.back_off(cursor, code.name)

    def missing(self, cursor: Cursor, code: ErrorCode) -> None:
        """Note that a broker or the metadata reports a partition as missing; fail it after :data:`MISSING_FOR`."""
        if cursor.fetch.is_missing(asyncio.get_running_loop().time(), MISSING_FOR):
            detail = why_missing(self._cluster.snapshot.topics, cursor.partition)
            self._assignment.fail(cursor, error_for(code, f"Fetch of {cursor.partition}", detail))

    def back_off(self, cursor: Cursor, failure: str) -> None:
        """Fetch a partition again after a backoff."""
        pause = self._cluster.backoff.delay(cursor.fetch.attempts + 1)
        cursor.fetch.failed(failure, asyncio.get_running_loop().time() + pause)
        self._fetcher.place_again(cursor)


_MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""The error codes for a topic that the broker doesn't know."""


def _is_current(cursor: Cursor, wanted: FetchPosition) -> bool:
    # guard: the response to a fetch from before a seek is dropped -> True
    return cursor.version == wanted.version and cursor.fetch.offset == wanted.offset
