"""Fetching: which broker each partition is read from, and a :class:`BrokerFetcher` for each of them.

News flows one way: what changes the assignment or the metadata marks partitions as changed; :meth:`Fetcher.run` places
these, in slices, with the broker that leads them (or the follower that their leader prefers); that broker's fetcher
brings records to their buffers, and the reader delivers them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from itertools import count

from aiokproto.cluster import ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.broker_fetcher import LATE, BrokerFetcher, wait_until
from aiokproto.consumer.chunk import Supply
from aiokproto.consumer.cursor import Cursor, PartitionState, PartitionStatus
from aiokproto.consumer.fetch_request import FetchConfig
from aiokproto.consumer.fetch_response import FetchResponseHandler
from aiokproto.consumer.turn import Turn
from aiokproto.error_codes import ErrorCode

_LEADERLESS_PAUSE = 0.5
_LONGEST_LEADERLESS_PAUSE = 10.0
"""Seconds after which the metadata is asked again for partitions without a leader: from the first to the last time."""


class Fetcher:
    """Keeps the buffers of all assigned partitions filled."""

    def __init__(
        self, cluster: ClusterClient, assignment: Assignment, config: FetchConfig, reset: Callable[[Cursor, str], bool]
    ) -> None:
        """Make a fetcher; :meth:`run` has to be called.

        Args:
            cluster: Connections and metadata.
            assignment: The partitions.
            config: The options.
            reset: Called with a partition whose position means nothing in its log, and why; returns whether it has an
                effect now.
        """
        self._cluster = cluster
        self._assignment = assignment
        self._config = config
        self._reset = reset
        self._handler = FetchResponseHandler(cluster, assignment, config, self._mark, reset)
        self._fetchers: dict[int, BrokerFetcher] = {}
        self._tasks: dict[BrokerFetcher, asyncio.Task[None]] = {}
        self._supplies: dict[int, Supply] = {}
        self._places: dict[Cursor, BrokerFetcher] = {}
        # Dictionaries for their order.
        self._changed: dict[Cursor, None] = {}
        self._leaderless: dict[Cursor, None] = {}
        self._leaderless_pause = _LEADERLESS_PAUSE
        self._ask_again_at = 0.0
        self._later: list[tuple[float, int, Cursor]] = []
        self._numbers = count()
        self._topics: dict[str, TopicInfo | None] = {}
        self._wake = asyncio.Event()
        self._turn = Turn()

    # What others say

    def changed(self, cursors: Iterable[Cursor]) -> None:
        """These have come or gone, or may be fetched now, or from elsewhere, or not any more."""
        self._changed.update(dict.fromkeys(cursors))
        self._wake.set()

    def _mark(self, cursor: Cursor) -> None:
        self._changed[cursor] = None
        self._wake.set()

    def metadata_changed(self) -> None:
        """There is a newer snapshot."""
        self._wake.set()

    def room(self) -> None:
        """There is room for more."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    # Work

    async def run(self) -> None:
        """Fetch, for ever. Raises what ends it."""
        seen: ClusterSnapshot | None = None
        try:
            while True:
                self._wake.clear()
                if self._cluster.snapshot is not seen:
                    seen = self._cluster.snapshot
                    await self._mark_moved(seen)
                self._mark_due()
                await self._place_changed()
                self._raise_failure()
                if not self._changed and self._cluster.snapshot is seen:
                    await wait_until(self._wake, self._next_due())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _mark_moved(self, snapshot: ClusterSnapshot) -> None:
        """Mark the partitions of topics that are not as they were in the last snapshot."""
        before = self._topics
        self._topics = {name: snapshot.topics.get(name) for name in {each.topic for each in self._assignment.cursors}}
        moved = {name for name, info in self._topics.items() if name not in before or before[name] != info}
        brokers = snapshot.brokers.keys()
        for cursor in list(self._assignment.cursors.values()):
            replica = cursor.fetch.replica
            if cursor.partition.topic in moved or (replica is not None and replica[0] not in brokers):
                self._changed[cursor] = None
            await self._turn.pause()

    def _next_due(self) -> float | None:
        """When something is to be placed again (loop time), if nothing happens before."""
        times = [self._later[0][0]] if self._later else []
        if self._leaderless:
            times.append(self._ask_again_at)
        return min(times, default=None)

    def _mark_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._leaderless:
            self._leaderless_pause, self._ask_again_at = _LEADERLESS_PAUSE, now + _LEADERLESS_PAUSE
        elif self._ask_again_at <= now:
            self._changed.update(self._leaderless)
            self._leaderless_pause = min(2 * self._leaderless_pause, _LONGEST_LEADERLESS_PAUSE)
            self._ask_again_at = now + self._leaderless_pause
        while self._later and self._later[0][0] <= now:
            self._changed[heapq.heappop(self._later)[2]] = None

    async def _place_changed(self) -> None:
        while self._changed:
            cursor = next(iter(self._changed))
            del self._changed[cursor]
            self._place(cursor, asyncio.get_running_loop().time())
            await self._turn.pause()

    def _place(self, cursor: Cursor, now: float) -> None:
        """See to it that a partition is fetched from where it can be, and from nowhere else."""
        self._leaderless.pop(cursor, None)
        node = self._node(cursor, now) if self._is_due(cursor, now) else None
        place = self._places.get(cursor)
        if place is not None and (place.node != node or place.ended):
            del self._places[cursor]
            place.remove(cursor)
        if node is not None:
            fetcher = self._places[cursor] = self._fetcher(node)
            fetcher.add(cursor)

    def _is_due(self, cursor: Cursor, now: float) -> bool:
        if self._assignment.cursors.get(cursor.partition) is not cursor or not cursor.fetchable:
            return False
        if self._is_another_topic(cursor) and not self._reset(cursor, "the topic was deleted and created again"):
            # What was fetched of the former topic is delivered first.
            self._handler.back_off(cursor, "the topic was deleted and created again")
        if cursor.fetch.retry_at > now:
            self._place_later(cursor, cursor.fetch.retry_at)
            return False
        return cursor.fetchable

    def _place_later(self, cursor: Cursor, when: float) -> None:
        heapq.heappush(self._later, (when, next(self._numbers), cursor))

    def _is_another_topic(self, cursor: Cursor) -> bool:
        """Whether the topic by this name is not the one that the position is from (KIP-516)."""
        info = self._cluster.snapshot.topics.get(cursor.partition.topic)
        # Without the topic in the metadata, the follower that is read from knows better.
        topic_id = info.topic_id if info else ZERO_UUID
        fetch = cursor.fetch
        if fetch.topic_id == ZERO_UUID:
            fetch.topic_id = topic_id
        return topic_id not in (fetch.topic_id, ZERO_UUID)

    def _node(self, cursor: Cursor, now: float) -> int | None:
        """The broker to read a partition from; without one, it is looked for."""
        snapshot, fetch = self._cluster.snapshot, cursor.fetch
        if fetch.replica is not None:
            node, until = fetch.replica
            if now < until and node in snapshot.brokers:
                self._place_later(cursor, until)
                return node
            fetch.replica = None
            if node not in snapshot.brokers:
                # It may be too new to be known here; asked where we are, the leader would only name it again.
                self._cluster.invalidate(f"{cursor.partition}: its leader names broker {node}, which is not known")
                self._handler.avoid_followers(node)
        leader = snapshot.leader(*cursor.partition)
        if leader is None:
            self._cluster.invalidate(f"{cursor.partition} has no leader")
            if snapshot.partition(*cursor.partition) is None:
                self._handler.missing(cursor, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if cursor.error is None:
                self._leaderless[cursor] = None
        return leader

    # The brokers

    def _fetcher(self, node: int) -> BrokerFetcher:
        fetcher = self._fetchers.get(node)
        if fetcher is None or fetcher.ended:
            supply = self._supplies.setdefault(node, Supply())
            fetcher = BrokerFetcher(
                node, self._cluster, self._config, self._handler, supply, self._share, self._is_placing
            )
            self._fetchers[node] = fetcher
            task = self._tasks[fetcher] = asyncio.create_task(fetcher.run(), name=f"aiokproto-fetch-{node}")
            task.add_done_callback(lambda _: self._wake.set())
        return fetcher

    def _raise_failure(self) -> None:
        for fetcher in [fetcher for fetcher, task in self._tasks.items() if task.done()]:
            if self._fetchers.get(fetcher.node) is fetcher:
                del self._fetchers[fetcher.node]
            self._tasks.pop(fetcher).result()

    def _is_placing(self) -> bool:
        return bool(self._changed)

    def _share(self) -> int:
        """How many bytes the next response may have: each broker may fill its share of the buffer, but never less than
        a partition's worth, or nothing would ever move."""
        buffered = sum(supply.size for supply in self._supplies.values())
        return max(
            (self._config.buffer_bytes - buffered) // max(len(self._fetchers), 1), self._config.max_partition_bytes
        )

    def trouble(self, cursor: Cursor) -> str:
        """Why nothing comes from a partition; empty if nothing is wrong, or if the user wants it so."""
        if cursor.paused or cursor.buffer or cursor.error is not None:
            return ""
        if cursor.held:
            return cursor.held
        if cursor.unresolved:
            late = cursor.lookup.under_way and asyncio.get_running_loop().time() - cursor.lookup.asked_at > LATE
            why = cursor.lookup.failure or ("no answer" if late else "")
            return why and f"{PartitionStatus.LOCATING.value}: {why}"
        place = self._places.get(cursor)
        if place is not None:
            return place.trouble
        if cursor in self._leaderless:
            return str(PartitionState(PartitionStatus.NO_LEADER, cursor.fetch.failure))
        return cursor.fetch.failure

    def state(self, cursor: Cursor) -> PartitionState:
        """What a partition is doing."""
        now = asyncio.get_running_loop().time()
        fetch, place = cursor.fetch, self._places.get(cursor)
        source = f"from broker {place.node}" if place is not None else ""
        # Paused comes before the rest, since the user has asked for that; an error before all.
        cases: list[tuple[object, PartitionStatus, str]] = [
            (cursor.error, PartitionStatus.FAILED, str(cursor.error)),
            (cursor.held, PartitionStatus.REVOKING, cursor.held),
            (cursor.paused, PartitionStatus.PAUSED, ""),
            (cursor.unresolved, PartitionStatus.LOCATING, cursor.lookup.failure),
            (cursor.buffer, PartitionStatus.BUFFERED, f"{cursor.buffer.size} bytes"),
            (fetch.retry_at > now, PartitionStatus.BACKING_OFF, fetch.failure),
            (place is None, PartitionStatus.NO_LEADER, fetch.failure),
            (place is not None and place.retry_at > now, PartitionStatus.BACKING_OFF, place.failure if place else ""),
            (place is not None and place.under_way, PartitionStatus.FETCHING, source),
            (True, PartitionStatus.IDLE, source),
        ]
        return next(PartitionState(status, detail) for true, status, detail in cases if true)
