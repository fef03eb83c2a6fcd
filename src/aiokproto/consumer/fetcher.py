"""Fetching: which broker each partition is fetched from, and a :class:`BrokerFetcher` for each of them.

Information flows one way. What changes the assignment or the metadata marks partitions as changed; :meth:`Fetcher.run`
*places* these, in time slices, at the broker that leads them (or the follower that their leader prefers); that broker's
fetcher fills their buffers, and the reader delivers from there. A partition is placed at one broker at most, so that no
offset is fetched twice. Nothing here costs time for partitions that have not changed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from itertools import count

from aiokproto.cluster import ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.broker_fetcher import LATE, BrokerFetcher
from aiokproto.consumer.cursor import Cursor, PartitionState, PartitionStatus
from aiokproto.consumer.fetch_request import FetchConfig
from aiokproto.consumer.fetch_response import FetchResponseHandler
from aiokproto.consumer.position_validator import PositionValidator
from aiokproto.consumer.reset_reason import ResetReason
from aiokproto.error_codes import ErrorCode
from aiokproto.fetched.chunk import BufferedBytes
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.runtime import create_task
from aiokproto.runtime.timeouts import wait_until
from aiokproto.texts import counted

_LEADERLESS_PAUSE = 0.5
_LONGEST_LEADERLESS_PAUSE = 10.0
"""Seconds between metadata refreshes while partitions have no leader: doubled from the first to the last value."""


class Fetcher:
    """Keeps the buffers of all assigned partitions filled."""

    def __init__(
        self,
        cluster: ClusterClient,
        assignment: Assignment,
        config: FetchConfig,
        reset: Callable[[Cursor, ResetReason], bool],
        validator: PositionValidator,
    ) -> None:
        """Create a fetcher; :meth:`run` does the work.

        Args:
            cluster: Connections and metadata.
            assignment: The partitions.
            config: The options.
            reset: Called with a partition whose position is not in the log, and the reason; returns whether the
                position was reset (False while buffered records have to be delivered first).
            validator: Checks that the leader's log has what was fetched.
        """
        self._cluster = cluster
        self._assignment = assignment
        self._config = config
        self._reset = reset
        self._validator = validator
        self._handler = FetchResponseHandler(cluster, assignment, config, self._mark, reset, validator.found)
        self._fetchers: dict[int, BrokerFetcher] = {}
        self._tasks: dict[BrokerFetcher, asyncio.Task[None]] = {}
        # By broker: chunks count in it until they are delivered, even if the fetcher has ended. Removed when the broker
        # has left the cluster and nothing counts in it.
        self._buffered: dict[int, BufferedBytes] = {}
        # Where each partition is fetched. The only writer is _place(), so it is one broker at most.
        self._places: dict[Cursor, BrokerFetcher] = {}
        # Dictionaries used as ordered sets.
        self._changed: dict[Cursor, None] = {}
        self._leaderless: dict[Cursor, None] = {}
        self._leaderless_pause = _LEADERLESS_PAUSE
        self._refresh_at = 0.0
        # A heap of partitions to place again at a time; an outdated entry only places one once more.
        self._later: list[tuple[float, int, Cursor]] = []
        # Breaks ties in the heap: cursors cannot be compared.
        self._numbers = count()
        # The topics as of the last placing, to find those that have changed.
        self._topics: dict[str, TopicInfo | None] = {}
        self._wake = asyncio.Event()
        self._slice = TimeSlice()

    # Events

    def changed(self, cursors: Iterable[Cursor]) -> None:
        """Place these partitions again: they were added, removed, moved, paused, resumed or sought."""
        self._changed.update(dict.fromkeys(cursors))
        self._wake.set()

    def _mark(self, cursor: Cursor) -> None:
        self._changed[cursor] = None
        self._wake.set()

    def metadata_changed(self) -> None:
        """Take the new cluster metadata into account."""
        self._wake.set()

    def room(self) -> None:
        """Fetch more, if the buffer has room."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    # Work

    async def run(self) -> None:
        """Fetch until cancelled. Raises errors that end the consumer."""
        seen: ClusterSnapshot | None = None
        try:
            while True:
                # Before the state is read, so that no change is missed.
                self._wake.clear()
                # By identity: every update is a new object.
                if self._cluster.snapshot is not seen:
                    seen = self._cluster.snapshot
                    await self._mark_moved(seen)
                self._mark_due()
                await self._place_changed()
                # The tasks are not awaited anywhere else: their errors end the consumer from here.
                self._raise_failure()
                # The awaits above may have let something change.
                if not self._changed and self._cluster.snapshot is seen:
                    await wait_until(self._wake, self._next_due())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _mark_moved(self, snapshot: ClusterSnapshot) -> None:
        """Mark the partitions of topics that differ from the last snapshot."""
        for node in [node for node in self._buffered if node not in snapshot.brokers and node not in self._fetchers]:
            if not self._buffered[node].size:
                del self._buffered[node]
        before = self._topics
        self._topics = {name: snapshot.topics.get(name) for name in {each.topic for each in self._assignment.cursors}}
        moved = {name for name, info in self._topics.items() if name not in before or before[name] != info}
        brokers = snapshot.brokers.keys()
        # A copy: pause() lets the assignment change.
        for cursor in list(self._assignment.cursors.values()):
            replica = cursor.fetch.replica
            if cursor.partition.topic in moved or (replica is not None and replica[0] not in brokers):
                self._changed[cursor] = None
            await self._slice.pause()

    def _next_due(self) -> float | None:
        """Return the loop time at which partitions have to be placed again, None if no such time is known."""
        times = [self._later[0][0]] if self._later else []
        if self._leaderless:
            times.append(self._refresh_at)
        return min(times, default=None)

    def _mark_due(self) -> None:
        now = asyncio.get_running_loop().time()
        # The refresh starts again with the short pause next time.
        if not self._leaderless:
            self._leaderless_pause, self._refresh_at = _LEADERLESS_PAUSE, now + _LEADERLESS_PAUSE
        elif self._refresh_at <= now:
            self._changed.update(self._leaderless)
            self._leaderless_pause = min(2 * self._leaderless_pause, _LONGEST_LEADERLESS_PAUSE)
            self._refresh_at = now + self._leaderless_pause
        while self._later and self._later[0][0] <= now:
            self._changed[heapq.heappop(self._later)[2]] = None

    async def _place_changed(self) -> None:
        while self._changed:
            # One by one, with a look at the dict each time: more can be marked during pause().
            cursor = next(iter(self._changed))
            del self._changed[cursor]
            self._place(cursor, asyncio.get_running_loop().time())
            await self._slice.pause()

    def _place(self, cursor: Cursor, now: float) -> None:
        """Have a partition fetched from the right broker and from no other, or from none."""
        self._leaderless.pop(cursor, None)
        node = self._node(cursor, now) if self._is_due(cursor, now) else None
        # Removed from the old broker before it is added to the new one: never at both.
        place = self._places.get(cursor)
        if place is not None and not place.ended and self._awaits_response(cursor, place.node):
            place.stop(cursor)
        elif place is not None and (place.node != node or place.ended):
            del self._places[cursor]
            place.remove(cursor)
        if node is not None:
            fetcher = self._places[cursor] = self._fetcher(node)
            # Also if it is there already: its offset or its state may be new.
            fetcher.add(cursor)

    def _awaits_response(self, cursor: Cursor, node: int) -> bool:
        """Return whether what a broker has sent of a stopped partition is kept: not if another one leads by now."""
        if self._assignment.cursors.get(cursor.partition) is not cursor or not cursor.stopped:
            return False
        snapshot, fetch = self._cluster.snapshot, cursor.fetch
        if snapshot.leader_epoch(*cursor.partition) not in (-1, fetch.leader_epoch):
            return False
        return node == (snapshot.leader(*cursor.partition) if fetch.replica is None else fetch.replica[0])

    def _is_due(self, cursor: Cursor, now: float) -> bool:
        if self._assignment.cursors.get(cursor.partition) is not cursor or not cursor.fetchable:
            return False
        if self._is_another_topic(cursor) and not self._reset(cursor, ResetReason.TOPIC_RECREATED):
            # Records of the deleted topic are still buffered; deliver them first.
            self._handler.back_off(cursor, ResetReason.TOPIC_RECREATED.value)
        if cursor.fetch.retry_at > now:
            self._place_later(cursor, cursor.fetch.retry_at)
            return False
        # Again: the reset above may have taken its position away.
        return cursor.fetchable and self._validator.is_valid(cursor)

    def _place_later(self, cursor: Cursor, when: float) -> None:
        heapq.heappush(self._later, (when, next(self._numbers), cursor))

    def _is_another_topic(self, cursor: Cursor) -> bool:
        """Whether the topic was deleted and created again since the position was set: its id differs (KIP-516)."""
        info = self._cluster.snapshot.topics.get(cursor.partition.topic)
        # While the topic is missing in the metadata, the broker that serves it knows better.
        topic_id = info.topic_id if info else ZERO_UUID
        fetch = cursor.fetch
        # The first time, or from a cluster before 2.8, which has no ids.
        if fetch.topic_id == ZERO_UUID:
            fetch.topic_id = topic_id
        # guard: a topic that was created again is not read on -> False
        return topic_id not in (fetch.topic_id, ZERO_UUID)

    def _node(self, cursor: Cursor, now: float) -> int | None:
        """Return the broker to fetch a partition from; if there is none, refresh the metadata and return None."""
        snapshot, fetch = self._cluster.snapshot, cursor.fetch
        if fetch.replica is not None:
            node, until = fetch.replica
            if now < until and node in snapshot.brokers:
                # The leader is asked again then; it may name a closer one.
                self._place_later(cursor, until)
                return node
            fetch.replica = None
            if node not in snapshot.brokers:
                # The broker may be newer than our metadata. Until that is refreshed, do not let the leader name it
                # again.
                self._cluster.metadata.invalidate(
                    f"{cursor.partition}: its leader names broker {node}, which is not known"
                )
                self._handler.avoid_followers(node)
        leader = snapshot.leader(*cursor.partition)
        if leader is None:
            # On each placing; the pause of _mark_due() spaces them.
            self._cluster.metadata.invalidate(f"{cursor.partition} has no leader")
            if snapshot.partition(*cursor.partition) is None:
                self._handler.missing(cursor, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if cursor.error is None:
                self._leaderless[cursor] = None
        return leader

    # Brokers

    def _fetcher(self, node: int) -> BrokerFetcher:
        fetcher = self._fetchers.get(node)
        if fetcher is None or fetcher.ended:
            buffered = self._buffered.setdefault(node, BufferedBytes())
            fetcher = BrokerFetcher(
                node, self._cluster, self._config, self._handler, buffered, self._share, self._is_placing
            )
            self._fetchers[node] = fetcher
            task = self._tasks[fetcher] = create_task(fetcher.run(), name=f"aiokproto-fetch-{node}")
            # Wakes run(), which raises its error, or places what is left.
            task.add_done_callback(lambda _: self._wake.set())
        return fetcher

    def _raise_failure(self) -> None:
        for fetcher in [fetcher for fetcher, task in self._tasks.items() if task.done()]:
            if self._fetchers.get(fetcher.node) is fetcher:
                del self._fetchers[fetcher.node]
            # Raises the error of the fetcher, if it has one.
            self._tasks.pop(fetcher).result()

    def _is_placing(self) -> bool:
        return bool(self._changed)

    def _share(self) -> int:
        """Return the size limit of a response: an equal share of what is left of the buffer.

        At least one partition's worth: with less, a full buffer of paused partitions would stop the others.
        """
        buffered = sum(each.size for each in self._buffered.values())
        return max(
            (self._config.buffer_bytes - buffered) // max(len(self._fetchers), 1), self._config.max_partition_bytes
        )

    def problem(self, cursor: Cursor) -> str:
        """Return why a partition delivers nothing; empty if there is nothing to deliver, or a read delivers it."""
        if cursor.error is not None:
            return ""
        if cursor.held:
            return cursor.held
        if cursor.paused:
            return "paused by the application" if cursor.buffer or cursor.lag(self._config.read_committed) != 0 else ""
        if cursor.buffer:
            return ""
        if cursor.unresolved:
            late = cursor.lookup.under_way and asyncio.get_running_loop().time() - cursor.lookup.requested_at > LATE
            why = cursor.lookup.failure or ("no response" if late else "")
            return why and f"{PartitionStatus.RESOLVING.value}: {why}"
        if self._validator.is_checking(cursor):
            return str(PartitionState(PartitionStatus.VALIDATING, self._validator.failure(cursor)))
        place = self._places.get(cursor)
        if place is not None:
            return place.problem or self._open_transaction(cursor)
        if cursor in self._leaderless:
            return str(PartitionState(PartitionStatus.NO_LEADER, cursor.fetch.failure))
        return cursor.fetch.failure

    def _open_transaction(self, cursor: Cursor) -> str:
        """Return which transaction keeps ``read_committed`` from records; empty if none does."""
        stable, end = cursor.fetch.last_stable_offset, cursor.fetch.high_watermark
        if not self._config.read_committed or cursor.position != stable or stable >= end:
            return ""
        return (
            f"{cursor.partition} has an open transaction from offset {stable} on, for which "
            f"isolation_level='read_committed' waits (the log ends at {end})"
        )

    def state(self, cursor: Cursor) -> PartitionState:
        """Return what the consumer is doing about a partition."""
        now = asyncio.get_running_loop().time()
        fetch, place = cursor.fetch, self._places.get(cursor)
        source = f"from broker {place.node}" if place is not None else ""
        # In order of importance to the application: errors first, then what the group and the application have stopped.
        cases: list[tuple[object, PartitionStatus, str]] = [
            (cursor.error, PartitionStatus.FAILED, str(cursor.error)),
            (cursor.held, PartitionStatus.REVOKING, cursor.held),
            (cursor.paused, PartitionStatus.PAUSED, ""),
            (cursor.full, PartitionStatus.FULL, ""),
            (cursor.unresolved, PartitionStatus.RESOLVING, cursor.lookup.failure),
            (cursor.buffer, PartitionStatus.BUFFERED, counted(cursor.buffer.size, "byte")),
            (self._validator.is_checking(cursor), PartitionStatus.VALIDATING, self._validator.failure(cursor)),
            (fetch.retry_at > now, PartitionStatus.BACKING_OFF, fetch.failure),
            (place is None, PartitionStatus.NO_LEADER, fetch.failure),
            (place is not None and place.retry_at > now, PartitionStatus.BACKING_OFF, place.failure if place else ""),
            (place is not None and place.under_way, PartitionStatus.FETCHING, source),
            (True, PartitionStatus.IDLE, source),
        ]
        return next(PartitionState(status, detail) for true, status, detail in cases if true)
