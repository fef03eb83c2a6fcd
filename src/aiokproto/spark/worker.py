"""State that a Python worker of Spark keeps from task to task: an event loop in a separate thread, and clients.

That thread fetches while the task's thread decodes, and while Spark consumes the rows.
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
"""Maximum number of clients that a process keeps; the least recently used are closed."""


class Worker:
    """An event loop, its thread, and the clients that run on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clusters: OrderedDict[str, ClusterClient] = OrderedDict()
        # A daemon thread: Spark ends its workers at any time, without notice.
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokproto-spark", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def cluster(self, connection: Mapping[str, Any], topic: str) -> ClusterClient:
        """Return a started client for these options, which has the metadata of the topic."""
        return self.start(self._cluster(connection, topic)).result()

    def close(self) -> None:
        """Close all clients and end the thread."""
        self.start(self._close_oldest(0)).result()
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
        await self._close_oldest(KEPT)
        return cluster

    async def _close_oldest(self, keep: int) -> None:
        while len(self._clusters) > keep:
            _, cluster = self._clusters.popitem(last=False)
            await cluster.close()


_workers: dict[int, Worker] = {}


def worker() -> Worker:
    """Return the worker of this process, by its id: Spark forks processes, and a fork does not have the thread."""
    pid = os.getpid()
    if pid not in _workers:
        _workers.clear()
        _workers[pid] = Worker()
    return _workers[pid]
