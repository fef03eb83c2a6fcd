"""Fetch responses: records to their partitions, and what the partitions' errors mean."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse, PartitionData
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.chunk import Chunk, Supply, chunks
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.fetch_request import FetchConfig
from aiokproto.consumer.fetch_session import FetchPosition
from aiokproto.consumer.turn import Turn
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import CorruptRecordError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.fetch")

MISSING_FOR = 5.0
"""Seconds for which brokers may say that a topic does not exist before it is believed: news of new ones takes time."""

REPLICA_FOR = 300.0
"""Seconds after which the leader is asked again for the best replica to read from."""

_AROUND_RECORDS = 1024
"""More than a response with the records of one partition takes beside them."""


class FetchResponseHandler:
    """Takes in responses.

    A partition's part of a response is dropped if it was sought, or is fetched from elsewhere, since the request.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        assignment: Assignment,
        config: FetchConfig,
        place: Callable[[Cursor], None],
        reset: Callable[[Cursor, str], bool],
    ) -> None:
        """Make a handler.

        Args:
            cluster: Metadata.
            assignment: Where records go.
            config: The options.
            place: Called when a partition may have to be fetched from elsewhere, later, or not any more.
            reset: Called with a partition whose position means nothing in its log, and why; returns whether it has an
                effect now.
        """
        self._cluster = cluster
        self._assignment = assignment
        self._config = config
        self.place = place
        self._reset = reset
        self.leaders_until = 0.0
        """Loop time until which no follower is read from, as one could not be reached."""

    async def handle(
        self,
        node: int,
        response: FetchResponse,
        asked: Mapping[TopicPartition, FetchPosition],
        names: Callable[[bytes], str],
        cursors: Mapping[TopicPartition, Cursor],
        supply: Supply,
    ) -> list[TopicPartition]:
        """Take in a response.

        Args:
            node: The broker.
            response: What it answered.
            asked: What it was asked for.
            names: The name of a topic's id.
            cursors: What is fetched from this broker now.
            supply: Where to count what it has sent.

        Returns:
            The partitions that are to be asked for from another offset now.
        """
        turn, moved = Turn(), []
        for topic in response.responses:
            name = topic.topic or names(topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                cursor, wanted = cursors.get(partition), asked.get(partition)
                if cursor is None or wanted is None or not _is_current(cursor, wanted):
                    continue
                if data.error_code:
                    self._refused(node, cursor, data)
                elif await self._accepted(cursor, wanted, data, cursors, supply, turn):
                    moved.append(partition)
                await turn.pause()
        return moved

    async def _accepted(
        self,
        cursor: Cursor,
        wanted: FetchPosition,
        data: PartitionData,
        cursors: Mapping[TopicPartition, Cursor],
        supply: Supply,
        turn: Turn,
    ) -> bool:
        """Take in the records of a partition; whether it is to be asked for from another offset now."""
        fetch = cursor.fetch
        fetch.succeeded()
        fetch.high_watermark = data.high_watermark
        fetch.last_stable_offset = data.last_stable_offset
        fetch.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            fetch.replica = (data.preferred_read_replica, asyncio.get_running_loop().time() + REPLICA_FOR)
            self.place(cursor)
        if not data.records:
            return False
        aborted = data.aborted_transactions or [] if self._config.read_committed else []
        for chunk in chunks(cursor.partition, wanted.offset, memoryview(data.records), aborted):
            if cursor.version != wanted.version or fetch.offset != chunk.position:
                return False
            if cursors.get(cursor.partition) is not cursor:
                # Another broker was asked for the rest meanwhile, from the offset that this one had come to.
                return False
            # By what this request had asked for: the larger one before it may have failed.
            if chunk.wanted_size > wanted.max_bytes and self._has_room_for(chunk):
                fetch.wanted_size = chunk.wanted_size
                return True
            cursor.received(chunk, supply)
            if chunk.damage is not None:
                self.place(cursor)
            self._assignment.arrived(cursor)
            await turn.pause()
        return True

    def _has_room_for(self, chunk: Chunk) -> bool:
        """Whether a batch that was cut can come as a whole; if not, the chunk says so."""
        limit = self._cluster.config.max_response_size
        if chunk.wanted_size <= limit - _AROUND_RECORDS:
            return True
        chunk.damage = error_for(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{chunk.partition} at offset {chunk.position}",
            f"what begins there takes {chunk.wanted_size} bytes, more than fit into max_response_size={limit}",
        )
        return False

    def _refused(self, node: int, cursor: Cursor, data: PartitionData) -> None:
        """Do what a partition's error code asks for."""
        code, fetch = ErrorCode(data.error_code), cursor.fetch
        context = f"Fetch of {cursor.partition} at offset {fetch.offset} from broker {node}"
        action = classify(code, Situation(FetchRequest.api_key, follower=fetch.replica is not None))
        if action is Action.STOP:
            raise error_for(code, context)
        if action is Action.FAIL:
            damaged = code is ErrorCode.CORRUPT_MESSAGE
            error: KafkaError = (
                CorruptRecordError(f"{context}: the broker finds its log damaged")
                if damaged
                else (error_for(code, context))
            )
            self._assignment.fail(cursor, error)
        elif action is Action.RESET_OFFSET:
            if not self._reset(cursor, f"offset {fetch.offset} is outside the log"):
                self.back_off(cursor, code.name)
        elif action is Action.FETCH_FROM_LEADER:
            self._leave_follower(node, cursor, code)
        else:
            self._wait_for_leader(cursor, data, code, f"{context}: {code.name}", action)

    def _leave_follower(self, node: int, cursor: Cursor, code: ErrorCode) -> None:
        cursor.fetch.replica = None
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # The follower serves; only the leader knows whether the offset is good.
            self.place(cursor)
        else:
            self.back_off(cursor, code.name)
        # Or a leader that has other ideas of it would name it again, and so on.
        self.avoid_followers(node)

    def avoid_followers(self, node: int) -> None:
        """Read from leaders for a while: a broker that they prefer cannot be reached, or does not serve."""
        log.info("fetching from leaders: broker %d, a preferred replica, does not serve", node)
        self.leaders_until = asyncio.get_running_loop().time() + REPLICA_FOR

    def _wait_for_leader(self, cursor: Cursor, data: PartitionData, code: ErrorCode, what: str, action: Action) -> None:
        leader = data.current_leader
        if leader.leader_id >= 0:
            self._cluster.hint_leader(*cursor.partition, leader.leader_id, leader.leader_epoch)
        if action in (Action.REFRESH_METADATA, Action.VALIDATE_OFFSET):
            self._cluster.invalidate(what)
        if code in _MISSING:
            self.missing(cursor, code)
        else:
            cursor.fetch.missing_since = None
        if cursor.error is None:
            self.back_off(cursor, code.name)

    def missing(self, cursor: Cursor, code: ErrorCode) -> None:
        """A partition does not exist, says a broker, or the metadata."""
        if cursor.fetch.is_missing(asyncio.get_running_loop().time(), MISSING_FOR):
            self._assignment.fail(cursor, error_for(code, f"Fetch of {cursor.partition}"))

    def back_off(self, cursor: Cursor, failure: str) -> None:
        """Fetch a partition again after a pause."""
        pause = self._cluster.backoff(cursor.fetch.attempts + 1)
        cursor.fetch.failed(failure, asyncio.get_running_loop().time() + pause)
        self.place(cursor)


_MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""What a broker answers about a topic that it does not have."""


def _is_current(cursor: Cursor, wanted: FetchPosition) -> bool:
    return cursor.version == wanted.version and cursor.fetch.offset == wanted.offset
