"""Fetching: a task per broker, each with one request under way for all partitions that the broker leads.

A request goes out as soon as less than one partition's worth is left of what the broker sent before, so the next answer
is on its way while records are handed out. It names all partitions, also those of which something is left: a partition
that was left out would have to wait for the end of a long poll for the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from aiokproto.cluster import Cluster, ClusterSnapshot
from aiokproto.codec.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.chunk import Chunk, chunks
from aiokproto.consumer.cursor import Cursor, PartitionState, PartitionStatus
from aiokproto.consumer.session import FetchPlan, FetchSession, Wanted
from aiokproto.consumer.turn import Turn
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, CorruptRecordError, DeadlineError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.fetch")

MISSING_FOR = 5.0
"""Seconds for which brokers may say that a topic does not exist before it is believed: news of new ones takes time."""

_BY_NAME = 12
"""The last version of Fetch that names topics; from 13 on they go by id."""

_LEADER_CHECK = 0.5
_REPLICA_FOR = 300.0
"""Seconds after which the leader is asked again for the best replica to read from."""

_AROUND_RECORDS = 1024
"""More than an answer with the records of one partition takes beside them."""

_FOLLOWER = Situation(FetchRequest.api_key, follower=True)
_MISSING = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
_BROKER_TROUBLE = {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR}


@dataclass(frozen=True)
class FetchConfig:
    """How to fetch; durations in seconds."""

    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_partition_bytes: int = 1024 * 1024
    max_wait: float = 0.5
    buffer_bytes: int = 64 * 1024 * 1024
    read_committed: bool = False
    rack: str = ""


class _Asked(NamedTuple):
    """What a request under way asks for a cursor; an answer to anything else is out of date."""

    cursor: Cursor
    version: int
    offset: int
    max_bytes: int


class Fetcher:
    """Keeps the cursors of an assignment supplied."""

    def __init__(
        self, cluster: Cluster, assignment: Assignment, config: FetchConfig, reset: Callable[[Cursor, str], None]
    ) -> None:
        """``reset`` is called for a cursor whose position means nothing in the log, and why."""
        self._cluster = cluster
        self._assignment = assignment
        self._config = config
        self._reset = reset
        self._rescan = asyncio.Event()
        self._leaders_until = 0.0
        self._wakes: dict[int, asyncio.Event] = {}

    def wake(self) -> None:
        """Something has changed: look again who is to be fetched, and from where."""
        self._rescan.set()
        self.room()

    def room(self) -> None:
        """There is room for more."""
        for event in self._wakes.values():
            event.set()

    async def run(self) -> None:
        """Fetch, for ever. Raises what ends it."""
        workers: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                self._rescan.clear()
                missing = self._look_for_leaders(workers)
                waiting = asyncio.ensure_future(self._rescan.wait())
                try:
                    await asyncio.wait(
                        [waiting, *workers.values()],
                        timeout=_LEADER_CHECK if missing else None,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                finally:
                    waiting.cancel()
                for node in [node for node, worker in workers.items() if worker.done()]:
                    del self._wakes[node]
                    workers.pop(node).result()
        finally:
            for worker in workers.values():
                worker.cancel()
            await asyncio.gather(*workers.values(), return_exceptions=True)

    def _look_for_leaders(self, workers: dict[int, asyncio.Task[None]]) -> bool:
        """See to it that every broker with something to fetch has a worker. True if a leader is missing."""
        missing = False
        snapshot = self._cluster.snapshot
        now = asyncio.get_running_loop().time()
        for cursor in self._assignment.cursors.values():
            if not cursor.fetchable:
                continue
            node = self._node(cursor, snapshot, now)
            if node is None:
                missing = True
                self._cluster.invalidate(f"{cursor.partition} has no leader")
                if snapshot.partition(*cursor.partition) is None:
                    self._missing(cursor, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now)
            elif node not in workers:
                self._wakes[node] = asyncio.Event()
                workers[node] = asyncio.create_task(self._serve(node), name=f"aiokproto-fetch-{node}")
        return missing

    def _node(self, cursor: Cursor, snapshot: ClusterSnapshot, now: float) -> int | None:
        if cursor.replica is not None:
            node, until = cursor.replica
            if now < until and node in snapshot.brokers:
                return node
            cursor.replica = None
        return snapshot.leader(*cursor.partition)

    async def _serve(self, node: int) -> None:
        """Fetch from one broker, until none of the cursors is its own."""
        session = FetchSession()
        wake = self._wakes[node]
        failures = 0
        while True:
            wake.clear()
            mine, asked, retry_at = self._due(node)
            if not mine:
                return
            if not asked:
                await wait_until(wake, retry_at)
                continue
            plan = session.plan(self._wanted(asked))
            for entry in asked.values():
                entry.cursor.fetching = node
            try:
                response = await self._send(plan, node)
            except (BrokerConnectionError, DeadlineError) as error:
                session.failed()
                failures += 1
                self._cluster.invalidate(f"fetch: {error}")
                self._back_off((entry.cursor for entry in asked.values()), failures, str(error))
                self._leave_follower(
                    node, [entry.cursor for entry in asked.values() if entry.cursor.replica is not None]
                )
                continue
            finally:
                for entry in asked.values():
                    entry.cursor.fetching = None
            session.answered(response.error_code, response.session_id)
            if response.error_code:
                failures += 1
                log.debug("fetch session with broker %d: %s", node, ErrorCode(response.error_code).name)
                if failures > 1:
                    self._back_off(
                        (entry.cursor for entry in asked.values()), failures, ErrorCode(response.error_code).name
                    )
                continue
            failures = 0
            await self._take_in(response, asked, node)
            # Or it would take up its memory until the next one has come.
            del response

    def _leave_follower(self, node: int, cursors: list[Cursor]) -> None:
        """Read from the leaders what a broker is preferred for that cannot be reached, or does not serve it."""
        for cursor in cursors:
            cursor.replica = None
        if cursors:
            log.info("fetching from leaders: broker %d, a preferred replica, does not serve", node)
            self._leaders_until = asyncio.get_running_loop().time() + _REPLICA_FOR
            self._rescan.set()

    def _due(self, node: int) -> tuple[bool, dict[TopicPartition, _Asked], float | None]:
        """Whether anything is this broker's; what to ask it now; when to look again."""
        snapshot = self._cluster.snapshot
        now = asyncio.get_running_loop().time()
        mine = False
        buffered = 0
        asked: dict[TopicPartition, _Asked] = {}
        retry_at: float | None = None
        for partition, cursor in self._assignment.cursors.items():
            if not cursor.fetchable or self._node(cursor, snapshot, now) != node:
                continue
            mine = True
            buffered += cursor.buffered
            if cursor.retry_at > now:
                retry_at = cursor.retry_at if retry_at is None else min(retry_at, cursor.retry_at)
            elif self._is_another_topic(cursor, snapshot):
                self._reset(cursor, "the topic was deleted and created again")
                if cursor.fetch_offset is not None:
                    retry_at = cursor.retry_at if retry_at is None else min(retry_at, cursor.retry_at)
            elif cursor.fetch_offset is not None:
                size = max(self._config.max_partition_bytes, cursor.wanted_size)
                asked[partition] = _Asked(cursor, cursor.version, cursor.fetch_offset, size)
        if buffered >= self._config.max_partition_bytes:
            asked = {}
        # What wants more than usual asks alone: with company, the answer might be longer than is taken.
        larger = [item for item in asked.items() if item[1].cursor.wanted_size][:1]
        asked = dict(larger) or asked
        return mine, asked, retry_at

    def _is_another_topic(self, cursor: Cursor, snapshot: ClusterSnapshot) -> bool:
        """Whether the topic by this name is not the one that the position is from (KIP-516)."""
        info = snapshot.topics.get(cursor.partition.topic)
        # Without the topic in the metadata, the follower that is read from knows better.
        topic_id = info.topic_id if info else ZERO_UUID
        if cursor.topic_id == ZERO_UUID:
            cursor.topic_id = topic_id
        return topic_id not in (cursor.topic_id, ZERO_UUID)

    def _wanted(self, asked: dict[TopicPartition, _Asked]) -> dict[TopicPartition, Wanted]:
        topics = self._cluster.snapshot.topics
        return {
            partition: Wanted(
                topics[partition.topic].topic_id if partition.topic in topics else ZERO_UUID,
                entry.offset,
                # A follower need not be in the leader's epoch yet; asked without, it answers by what it has.
                -1 if entry.cursor.replica else self._cluster.snapshot.leader_epoch(*partition),
                entry.max_bytes,
            )
            for partition, entry in asked.items()
        }

    async def _send(self, plan: FetchPlan, node: int) -> FetchResponse:
        config = self._config
        held = sum(cursor.buffered for cursor in self._assignment.cursors.values())
        # Each broker may fill its share; never less than a partition's worth, or nothing would ever move.
        share = max((config.buffer_bytes - held) // max(len(self._wakes), 1), config.max_partition_bytes)
        everything = {**plan.forgotten, **plan.partitions}
        named = any(wanted.topic_id == ZERO_UUID for wanted in everything.values())
        request = FetchRequest(
            max_wait_ms=int(config.max_wait * 1000),
            min_bytes=config.min_bytes,
            max_bytes=min(config.max_bytes, share),
            isolation_level=int(config.read_committed),
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=_fetch_topics(plan),
            forgotten_topics_data=_forgotten_topics(plan),
            # Leaders that know our rack send us to the follower, whether or not we can reach it.
            rack_id=config.rack if asyncio.get_running_loop().time() >= self._leaders_until else "",
        )
        return await self._cluster.send(
            request,
            node,
            timeout=config.max_wait + self._cluster.config.request_timeout,
            max_version=_BY_NAME if named else None,
            channel="fetch",
        )

    async def _take_in(self, response: FetchResponse, asked: dict[TopicPartition, _Asked], node: int) -> None:
        topics = self._cluster.snapshot.topics
        names = {topics[name].topic_id: name for name in {key.topic for key in asked} if name in topics}
        turn = Turn()
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                entry = asked.get(TopicPartition(name, data.partition_index))
                if entry is not None:
                    await self._partition(entry, data, node, turn)

    async def _partition(self, asked: _Asked, data: PartitionData, node: int, turn: Turn) -> None:
        cursor = asked.cursor
        # Sought, or fetched from a new leader, while this was under way.
        if cursor.version != asked.version or cursor.fetch_offset != asked.offset:
            return
        if data.error_code:
            self._refused(cursor, data, node)
            return
        cursor.succeeded()
        cursor.high_watermark = data.high_watermark
        cursor.last_stable_offset = data.last_stable_offset
        cursor.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            now = asyncio.get_running_loop().time()
            cursor.replica = (data.preferred_read_replica, now + _REPLICA_FOR)
            self._rescan.set()
        if data.records:
            aborted = data.aborted_transactions or [] if self._config.read_committed else []
            for chunk in chunks(cursor.partition, asked.offset, memoryview(data.records), aborted):
                if cursor.version != asked.version or cursor.fetch_offset != chunk.position:
                    return
                if chunk.wanted_size > asked.max_bytes and self._has_room_for(chunk):
                    cursor.wanted_size = chunk.wanted_size
                    return
                cursor.fetched(chunk)
                self._assignment.arrived(cursor)
                await turn.pause()

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

    def _refused(self, cursor: Cursor, data: PartitionData, node: int) -> None:
        """Decide about a partition's error code."""
        code = ErrorCode(data.error_code)
        now = asyncio.get_running_loop().time()
        context = f"Fetch of {cursor.partition} at offset {cursor.fetch_offset} from broker {node}"
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if cursor.replica is not None:
                # A follower may lag behind, or have other segments: only the leader knows.
                cursor.replica = None
                self._rescan.set()
                return
            self._reset(cursor, f"offset {cursor.fetch_offset} is outside the log")
        elif cursor.replica is not None and classify(code, _FOLLOWER) is Action.FETCH_FROM_LEADER:
            self._back_off([cursor], cursor.attempts + 1, code.name)
            self._leave_follower(node, [cursor])
        elif code in _MISSING:
            self._back_off([cursor], cursor.attempts + 1, code.name)
            self._missing(cursor, code, now)
            self._cluster.invalidate(f"{context}: {code.name}")
        elif code is ErrorCode.CORRUPT_MESSAGE:
            cursor.fail(CorruptRecordError(f"{context}: the broker finds its log damaged"))
            self._assignment.arrived(cursor)
        elif code.retriable or code in _BROKER_TROUBLE:
            if data.current_leader.leader_id >= 0:
                hint = data.current_leader
                self._cluster.hint_leader(*cursor.partition, hint.leader_id, hint.leader_epoch)
            if code.refresh_metadata or code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                self._cluster.invalidate(f"{context}: {code.name}")
            self._back_off([cursor], cursor.attempts + 1, code.name)
            self._rescan.set()
        else:
            cursor.fail(error_for(code, context))
            self._assignment.arrived(cursor)

    def _missing(self, cursor: Cursor, code: ErrorCode, now: float) -> None:
        if cursor.missing_since is None:
            cursor.missing_since = now
        if now - cursor.missing_since >= MISSING_FOR:
            cursor.fail(error_for(code, f"Fetch of {cursor.partition}"))
            self._assignment.arrived(cursor)

    def _back_off(self, cursors: Iterable[Cursor], attempt: int, failure: str) -> None:
        retry_at = asyncio.get_running_loop().time() + self._cluster.backoff(attempt)
        for cursor in cursors:
            cursor.attempts = attempt
            cursor.failure = failure
            cursor.retry_at = retry_at

    def state(self, cursor: Cursor) -> PartitionState:
        """What the partition is doing."""
        now = asyncio.get_running_loop().time()
        node = self._node(cursor, self._cluster.snapshot, now)
        # Paused comes before the rest, since the user has asked for that; an error before all.
        cases: list[tuple[object, PartitionStatus, str]] = [
            (cursor.error, PartitionStatus.FAILED, str(cursor.error)),
            (cursor.held, PartitionStatus.REVOKING, cursor.held),
            (cursor.paused, PartitionStatus.PAUSED, ""),
            (cursor.fetch_offset is None, PartitionStatus.LOCATING, cursor.failure),
            (cursor.records or cursor.chunks, PartitionStatus.BUFFERED, f"{cursor.buffered} bytes"),
            (cursor.fetching is not None, PartitionStatus.FETCHING, f"from broker {cursor.fetching}"),
            (node is None, PartitionStatus.NO_LEADER, cursor.failure),
            (cursor.retry_at > now, PartitionStatus.BACKING_OFF, cursor.failure),
            (True, PartitionStatus.IDLE, f"from broker {node}"),
        ]
        return next(PartitionState(status, detail) for true, status, detail in cases if true)


async def wait_until(event: asyncio.Event, until: float | None) -> None:
    """Wait for the event, or until that loop time."""
    if until is None:
        await event.wait()
        return
    handle = asyncio.get_running_loop().call_at(until, event.set)
    try:
        await event.wait()
    finally:
        handle.cancel()


def _fetch_topics(plan: FetchPlan) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, number), wanted in plan.partitions.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=wanted.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics(plan: FetchPlan) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, number), wanted in plan.forgotten.items():
        key = (name, wanted.topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=name, topic_id=wanted.topic_id, partitions=[])
        topics[key].partitions.append(number)
    return list(topics.values())
