"""Assigns each partition to its leader, and keeps a :class:`BrokerSession` for each broker."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiokproto.cluster import ClusterClient
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.errors import ClientClosedError
from aiokproto.runtime import create_task
from aiokproto.runtime.timeouts import wait_until
from aiokproto.share.broker_session import BrokerSession
from aiokproto.share.config import ShareConfig
from aiokproto.share.session import TopicIdPartition
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.share.engine import ShareEngine

log = logging.getLogger("aiokproto.share")

_LEADERLESS_PAUSE = 0.5
"""Seconds between metadata refreshes while assigned partitions have no leader."""


class ShareFetcher:
    """Places the assigned partitions at their leaders."""

    def __init__(self, engine: ShareEngine, cluster: ClusterClient, config: ShareConfig) -> None:
        self._engine = engine
        self._cluster = cluster
        self._config = config
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._sessions: dict[int, BrokerSession] = {}
        self._tasks: dict[asyncio.Task[None], BrokerSession] = {}
        self._leaderless: list[TopicPartition] = []
        self._wake = asyncio.Event()

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return self._assigned

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assigned partitions."""
        self._assigned = frozenset(partitions)
        self._wake.set()

    def metadata_changed(self) -> None:
        """Handle new cluster metadata."""
        self._wake.set()

    def wake(self) -> None:
        """Make all sessions check what to send."""
        for session in self._sessions.values():
            session.wake()

    def flush(self) -> None:
        """Make all sessions send their acknowledgements now."""
        for session in self._sessions.values():
            session.flush()

    async def run(self) -> None:
        """Run until cancelled. Raises errors that end the consumer."""
        try:
            while True:
                self._wake.clear()
                for task in [task for task in self._tasks if task.done()]:
                    del self._tasks[task]
                    task.result()
                    raise ClientClosedError("a share session's task has ended")
                self._place()
                pause = asyncio.get_running_loop().time() + _LEADERLESS_PAUSE if self._leaderless else None
                await wait_until(self._wake, pause)
        finally:
            for session in self._sessions.values():
                session.stop()

    def _place(self) -> None:
        snapshot = self._cluster.snapshot
        placed: dict[int, dict[TopicIdPartition, TopicPartition]] = {node: {} for node in self._sessions}
        leaders: dict[TopicIdPartition, int] = {}
        self._leaderless = []
        for partition in sorted(self._assigned):
            info = snapshot.topics.get(partition.topic)
            leader = snapshot.leader(*partition)
            if info is None or leader is None or info.topic_id == ZERO_UUID:
                self._leaderless.append(partition)
                continue
            placed.setdefault(leader, {})[info.topic_id, partition.partition] = partition
        if self._leaderless:
            topics = {partition.topic for partition in self._leaderless}
            self._cluster.metadata.invalidate(f"{self._leaderless[0]} has no leader", topics)
        for name, info in snapshot.topics.items():
            for number in range(len(info.partitions)):
                if (leader := snapshot.leader(name, number)) is not None:
                    leaders[info.topic_id, number] = leader
        for node, partitions in placed.items():
            session = self._session(node)
            # guard: what was acquired from a former leader is lost -> session.place(partitions, [])
            session.place(partitions, [key for key in session.holds if leaders.get(key, node) != node])

    def _session(self, node: int) -> BrokerSession:
        session = self._sessions.get(node)
        if session is None:
            session = BrokerSession(self._engine, node, self._cluster, self._config)
            self._sessions[node] = session
            task = create_task(session.run(), name=f"aiokproto-share-{node}")
            self._tasks[task] = session
            task.add_done_callback(lambda _: self._wake.set())
        return session

    async def close(self, timeout: float) -> None:
        """After :meth:`run` has ended, send the last acknowledgements, and close the sessions, within the timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout

        async def close(task: asyncio.Task[None], session: BrokerSession) -> None:
            # Give a fetch in flight part of the time: its response may contain outcomes.
            await asyncio.wait([task], timeout=max(deadline - loop.time(), 0.0) / 2)
            task.cancel()
            await asyncio.wait([task])
            await session.close(max(deadline - loop.time(), 0.0))

        closing = [create_task(close(task, session)) for task, session in self._tasks.items()]
        try:
            if closing:
                await asyncio.wait(closing, timeout=timeout)
        finally:
            for task in closing:
                task.cancel()
            await asyncio.gather(*closing, return_exceptions=True)

    def abandon(self) -> None:
        """End all sessions now, without a request. Closing the connections releases the acquired records."""
        for task in self._tasks:
            task.cancel()
        for session in self._sessions.values():
            session.abandon()

    async def wait_closed(self) -> None:
        """Wait until the tasks have ended, after :meth:`abandon`."""
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                log.warning("share consumer: closing: %s", result)

    def problems(self) -> list[str]:
        """Return why partitions aren't being fetched."""
        found: list[str] = []
        if self._leaderless:
            more = f" and {len(self._leaderless) - 1} more" if len(self._leaderless) > 1 else ""
            found.append(f"{self._leaderless[0]}{more}: no leader")
        return found + [problem for session in self._sessions.values() for problem in session.problems()]

    def counts(self) -> tuple[Counter[TopicPartition], Counter[TopicPartition]]:
        """Return by partition how many records are being processed, and how many acknowledgements aren't sent yet."""
        held: Counter[TopicPartition] = Counter()
        unsent: Counter[TopicPartition] = Counter()
        for session in self._sessions.values():
            for acquired in session.acquired:
                held[acquired.partition] += len(acquired.held)
                unsent[acquired.partition] += acquired.unsent
        return held, unsent
