"""What a Python worker of Spark keeps from task to task: an event loop in a thread of its own, and connections.

Reading goes on in that thread while the task's thread decodes, and while Spark takes the rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.errors import ClientClosedError

T = TypeVar("T")

KEPT = 4
"""Clusters that a process stays connected to; those used least recently are left."""


class Worker:
    """The loop, its thread, and the clusters that live on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clusters: OrderedDict[str, ClusterClient] = OrderedDict()
        # A daemon: Spark ends its workers when it likes, without a word to them.
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokproto-spark", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def cluster(self, connection: Mapping[str, Any], topic: str) -> ClusterClient:
        """The cluster that these options lead to, which knows the topic."""
        return self.start(self._cluster(connection, topic)).result()

    def close(self) -> None:
        """Leave all clusters and end the thread."""
        self.start(self._leave(0)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cluster(self, connection: Mapping[str, Any], topic: str) -> ClusterClient:
        key = repr(sorted(connection.items()))
        if key in self._clusters:
            self._clusters.move_to_end(key)
            with contextlib.suppress(ClientClosedError):
                await self._clusters[key].topic(topic)
                return self._clusters[key]
        cluster = ClusterClient(ClusterConfig.parse(connection))
        try:
            await cluster.start()
            await cluster.topic(topic)
        except BaseException:
            await cluster.close()
            raise
        self._clusters[key] = cluster
        await self._leave(KEPT)
        return cluster

    async def _leave(self, keep: int) -> None:
        while len(self._clusters) > keep:
            _, cluster = self._clusters.popitem(last=False)
            await cluster.close()


_workers: dict[int, Worker] = {}


def worker() -> Worker:
    """The worker of this process. Processes are forked, and a thread does not come along: hence the process id."""
    pid = os.getpid()
    if pid not in _workers:
        _workers.clear()
        _workers[pid] = Worker()
    return _workers[pid]
