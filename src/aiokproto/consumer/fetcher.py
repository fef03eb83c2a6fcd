"""Fetching: the choice of the broker for each partition, and a :class:`BrokerFetcher` for each broker.

Information flows one way. A change of the assignment or the metadata marks partitions as changed. :meth:`Fetcher.run`
*places* these, in time slices, at the broker that leads them (or at the follower that their leader prefers). That
broker's fetcher fills their buffers, and the reader delivers from there. A partition is placed at one broker at most,
so no offset is fetched twice. Partitions that haven't changed don't take any time here.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from itertools import count

from aiokproto.cluster import ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.broker_fetcher import LATE, BrokerFetcher
from aiokproto.consumer.cursor import Cursor, PartitionState, PartitionStatus
from aiokproto.consumer.fetch_request import FetchConfig
from aiokproto.consumer.fetch_response import FetchResponseHandler
from aiokproto.consumer.position_resolver import PositionResolver
from aiokproto.consumer.position_validator import PositionValidator
from aiokproto.consumer.start_lookup import ResetReason
from aiokproto.error_codes import ErrorCode
from aiokproto.fetched.chunk import BufferedBytes
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.runtime import create_task
from aiokproto.runtime.timeouts import wait_until
from aiokproto.texts import counted

_LEADERLESS_PAUSE = 0.5
_LONGEST_LEADERLESS_PAUSE = 10.0
"""Seconds between metadata refreshes while partitions have no leader. The pause doubles from ``_LEADERLESS_PAUSE`` up
to this."""


class Fetcher:
    """Keeps the buffers of all assigned partitions full."""

    def __init__(
        self,
        cluster: ClusterClient,
        assignment: Assignment,
        config: FetchConfig,
        resolver: PositionResolver,
        validator: PositionValidator,
    ) -> None:
        """Create a fetcher; :meth:`run` does the work.

        Args:
            cluster: The connections and the metadata.
            assignment: The partitions.
            config: The options.
            resolver: Resets positions that aren't in the log.
            validator: Checks that the leader's log contains what was fetched.
        """
        self._cluster = cluster
        self._assignment = assignment
        self._config = config
        self._resolver = resolver
        self._validator = validator
        self._handler = FetchResponseHandler(self, cluster, assignment, config, resolver, validator)
        self._fetchers: dict[int, BrokerFetcher] = {}
        self._tasks: dict[BrokerFetcher, asyncio.Task[None]] = {}
        # The buffered bytes of each broker. They include each chunk until it's delivered, even if the broker's fetcher
        # has ended. An entry is removed once its broker has left the cluster and it includes no more chunks.
        self._buffered: dict[int, BufferedBytes] = {}
        # The fetcher of each placed partition. Only _place() writes it, so each partition has one broker at most.
        self._placed: dict[Cursor, BrokerFetcher] = {}
        # Dictionaries used as ordered sets.
        self._changed: dict[Cursor, None] = {}
        self._leaderless: dict[Cursor, None] = {}
        self._leaderless_pause = _LEADERLESS_PAUSE
        self._refresh_at = 0.0
        # A heap of partitions to place again later, by loop time. An outdated entry is harmless: its partition is
        # placed once more.
        self._later: list[tuple[float, int, Cursor]] = []
        # Breaks ties in the heap: cursors cannot be compared.
        self._numbers = count()
        # The topics of the last snapshot that was handled, to find the ones that have changed.
        self._topics: dict[str, TopicInfo | None] = {}
        self._wake = asyncio.Event()
        self._slice = TimeSlice()

    # Events

    def changed(self, cursors: Iterable[Cursor]) -> None:
        """Place these partitions again: they were added, removed, moved, paused, resumed or sought."""
        self._changed.update(dict.fromkeys(cursors))
        self._wake.set()

    def place_again(self, cursor: Cursor) -> None:
        """Place a partition again. It may end up at another broker, be delayed, or be dropped."""
        self._changed[cursor] = None
        self._wake.set()

    def metadata_changed(self) -> None:
        """Handle new cluster metadata."""
        self._wake.set()

    def room(self) -> None:
        """Fetch more if the buffer has room."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    # Work

    async def run(self) -> None:
        """Fetch until cancelled. Raises errors that end the consumer."""
        seen: ClusterSnapshot | None = None
        try:
            while True:
                # Clear the event before reading the state, so no change is missed.
                self._wake.clear()
                # Compare by identity: every update is a new object.
                if self._cluster.snapshot is not seen:
                    seen = self._cluster.snapshot
                    await self._mark_moved(seen)
                self._mark_due()
                await self._place_changed()
                # Raise the tasks' errors, which end the consumer. The tasks aren't awaited anywhere else.
                self._raise_failure()
                # Something may have changed during the awaits above.
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
        # Make a copy: the assignment may change during pause().
        for cursor in list(self._assignment.cursors.values()):
            replica = cursor.fetch.replica
            if cursor.partition.topic in moved or (replica is not None and replica[0] not in brokers):
                self._changed[cursor] = None
            await self._slice.pause()

    def _next_due(self) -> float | None:
        """Return the loop time when partitions have to be placed again; None if no such time is known."""
        times = [self._later[0][0]] if self._later else []
        if self._leaderless:
            times.append(self._refresh_at)
        return min(times, default=None)

    def _mark_due(self) -> None:
        now = asyncio.get_running_loop().time()
        # Next time, start with the short pause again.
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
            # Take them one at a time: more can be marked during pause().
            cursor = next(iter(self._changed))
            del self._changed[cursor]
            self._place(cursor, asyncio.get_running_loop().time())
            await self._slice.pause()

    def _place(self, cursor: Cursor, now: float) -> None:
        """Have a partition fetched from the right broker only, or not at all."""
        self._leaderless.pop(cursor, None)
        node = self._node(cursor, now) if self._is_due(cursor, now) else None
        # Remove it from the old broker before adding it to the new one: it must never be at both.
        fetcher = self._placed.get(cursor)
        if fetcher is not None and not fetcher.ended and self._awaits_response(cursor, fetcher.node):
            fetcher.stop(cursor)
        elif fetcher is not None and (fetcher.node != node or fetcher.ended):
            del self._placed[cursor]
            fetcher.remove(cursor)
        if node is not None:
            fetcher = self._placed[cursor] = self._fetcher(node)
            # Add it even if it's already there: its offset or its state may be new.
            fetcher.add(cursor)

    def _awaits_response(self, cursor: Cursor, node: int) -> bool:
        """Return whether to keep a broker's response for a stopped partition. It's dropped if another broker is the
        leader by now."""
        if self._assignment.cursors.get(cursor.partition) is not cursor or not cursor.stopped:
            return False
        snapshot, fetch = self._cluster.snapshot, cursor.fetch
        if snapshot.leader_epoch(*cursor.partition) not in (-1, fetch.leader_epoch):
            return False
        return node == (snapshot.leader(*cursor.partition) if fetch.replica is None else fetch.replica[0])

    def _is_due(self, cursor: Cursor, now: float) -> bool:
        if self._assignment.cursors.get(cursor.partition) is not cursor or not cursor.fetchable:
            return False
        if self._is_another_topic(cursor) and not self._resolver.reset(cursor, ResetReason.TOPIC_RECREATED):
            # Records of the deleted topic are still buffered, and are delivered first.
            self._handler.back_off(cursor, ResetReason.TOPIC_RECREATED.value)
        if cursor.fetch.retry_at > now:
            self._place_later(cursor, cursor.fetch.retry_at)
            return False
        # Check this again: the reset above may have removed the position.
        return cursor.fetchable and self._validator.is_valid(cursor)

    def _place_later(self, cursor: Cursor, when: float) -> None:
        heapq.heappush(self._later, (when, next(self._numbers), cursor))

    def _is_another_topic(self, cursor: Cursor) -> bool:
        """Return whether the topic was deleted and created again since the position was set. If so, its id differs
        (KIP-516)."""
        info = self._cluster.snapshot.topics.get(cursor.partition.topic)
        # While the topic is missing from the metadata, trust the broker that serves it.
        topic_id = info.topic_id if info else ZERO_UUID
        fetch = cursor.fetch
        # This is the first fetch, or the cluster is older than 2.8 and has no ids.
        if fetch.topic_id == ZERO_UUID:
            fetch.topic_id = topic_id
        # guard: a topic that was created again is not read on -> False
        return topic_id not in (fetch.topic_id, ZERO_UUID)

    def _node(self, cursor: Cursor, now: float) -> int | None:
        """Return the broker to fetch a partition from. If there is none, refresh the metadata and return None."""
        snapshot, fetch = self._cluster.snapshot, cursor.fetch
        if fetch.replica is not None:
            node, until = fetch.replica
            if now < until and node in snapshot.brokers:
                # At that time, ask the leader again: it may name a closer replica.
                self._place_later(cursor, until)
                return node
            fetch.replica = None
            if node not in snapshot.brokers:
                # The broker may be newer than the metadata. Until the metadata is refreshed, don't let the leader name
                # it again.
                self._cluster.metadata.invalidate(
                    f"{cursor.partition}: its leader names broker {node}, which is not known"
                )
                self._handler.avoid_followers(node)
        leader = snapshot.leader(*cursor.partition)
        if leader is None:
            # This happens each time the partition is placed. The pause in _mark_due() spaces these out.
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
            fetcher = BrokerFetcher(self, node, self._cluster, self._config, self._handler, buffered)
            self._fetchers[node] = fetcher
            task = self._tasks[fetcher] = create_task(fetcher.run(), name=f"aiokproto-fetch-{node}")
            # Wake run(), which raises the task's error, or places the remaining partitions.
            task.add_done_callback(lambda _: self._wake.set())
        return fetcher

    def _raise_failure(self) -> None:
        for fetcher in [fetcher for fetcher, task in self._tasks.items() if task.done()]:
            if self._fetchers.get(fetcher.node) is fetcher:
                del self._fetchers[fetcher.node]
            # result() raises the fetcher's error, if it has one.
            self._tasks.pop(fetcher).result()

    @property
    def is_placing(self) -> bool:
        """Whether more partitions are about to be placed."""
        return bool(self._changed)

    def share(self) -> int:
        """Return the size limit of a response: an equal share of the free buffer.

        It's at least one partition's worth: otherwise a buffer full of paused partitions would stop the others.
        """
        buffered = sum(each.size for each in self._buffered.values())
        return max(
            (self._config.buffer_bytes - buffered) // max(len(self._fetchers), 1), self._config.max_partition_bytes
        )

    def problem(self, cursor: Cursor) -> str:
        """Return why a partition isn't delivering records; empty if there is nothing to deliver, or if a read would
        deliver it."""
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
        fetcher = self._placed.get(cursor)
        if fetcher is not None:
            return fetcher.problem or self._open_transaction(cursor)
        if cursor in self._leaderless:
            return str(PartitionState(PartitionStatus.NO_LEADER, cursor.fetch.failure))
        return cursor.fetch.failure

    def _open_transaction(self, cursor: Cursor) -> str:
        """Return a description of the open transaction that ``read_committed`` is waiting for; empty if there is
        none."""
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
        fetch, fetcher = cursor.fetch, self._placed.get(cursor)
        source = f"from broker {fetcher.node}" if fetcher is not None else ""
        # These are in order of importance to the application: first errors, then partitions that the group or the
        # application has stopped.
        cases: list[tuple[object, PartitionStatus, str]] = [
            (cursor.error, PartitionStatus.FAILED, str(cursor.error)),
            (cursor.held, PartitionStatus.REVOKING, cursor.held),
            (cursor.paused, PartitionStatus.PAUSED, ""),
            (cursor.full, PartitionStatus.FULL, ""),
            (cursor.unresolved, PartitionStatus.RESOLVING, cursor.lookup.failure),
            (cursor.buffer, PartitionStatus.BUFFERED, counted(cursor.buffer.size, "byte")),
            (self._validator.is_checking(cursor), PartitionStatus.VALIDATING, self._validator.failure(cursor)),
            (fetch.retry_at > now, PartitionStatus.BACKING_OFF, fetch.failure),
            (fetcher is None, PartitionStatus.NO_LEADER, fetch.failure),
            (
                fetcher is not None and fetcher.retry_at > now,
                PartitionStatus.BACKING_OFF,
                fetcher.failure if fetcher else "",
            ),
            (fetcher is not None and fetcher.under_way, PartitionStatus.FETCHING, source),
            (True, PartitionStatus.IDLE, source),
        ]
        return next(PartitionState(status, detail) for true, status, detail in cases if true)
