"""State that a Python worker of Spark keeps between tasks: an event loop in a separate thread, and clients.

The event loop's thread fetches while the task's thread decodes, and while Spark consumes the rows. It writes while the
task's thread reads rows from Spark.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.config import ClusterConfig
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.spark.credentials import checkable, client_options, fingerprint

if TYPE_CHECKING:
    from aiokproto.producer import Producer

T = TypeVar("T")

MAX_KEPT = 4
"""Maximum number of clients, and of producers, that a process keeps. The least recently used ones are closed."""


class Worker:
    """An event loop, its thread, and the clients that run on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clusters: OrderedDict[str, ClusterClient] = OrderedDict()
        self._producers: OrderedDict[str, Producer] = OrderedDict()
        # Spark ends its workers at any time, without notice, so it has to be a daemon thread.
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokproto-spark", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop. Cancelling the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def cluster(self, connection: Mapping[str, Any], topic: str | None = None) -> ClusterClient:
        """Return a started client for these options. If a topic is given, the client has its metadata."""
        return self.start(self._cluster(connection, topic)).result()

    def producer(self, options: Mapping[str, Any]) -> Producer:
        """Return a started producer with these options. No other caller gets it until this one calls again."""
        return self.start(self._producer(options)).result()

    def discard(self, producer: Producer) -> None:
        """Close a producer, and drop the records that it hasn't sent yet."""
        self.start(self._discard(producer)).result()

    def close(self) -> None:
        """Close all clients and end the thread."""
        self.start(self._close_oldest(0)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cluster(self, connection: Mapping[str, Any], topic: str | None) -> ClusterClient:
        options = client_options(connection)
        key = fingerprint(options)
        if key in self._clusters:
            self._clusters.move_to_end(key)
            with contextlib.suppress(ClientClosedError):
                self._clusters[key].check()
                if topic is not None:
                    await self._clusters[key].topic(topic)
                return self._clusters[key]
        REPORTED_ELSEWHERE.set(True)
        cluster = ClusterClient(ClusterConfig.parse(options))
        try:
            await cluster.start()
            if topic is not None:
                await cluster.topic(topic)
        except BaseException:
            await cluster.close()
            raise
        self._clusters[key] = cluster
        await self._close_oldest(MAX_KEPT)
        return cluster

    async def _producer(self, options: Mapping[str, Any]) -> Producer:
        # Import it here: most tasks only read.
        from aiokproto.producer import Producer

        given, options = options, client_options(options)
        key = fingerprint(options)
        found = self._producers.get(key)
        if found is not None and not found.health().ended:
            self._producers.move_to_end(key)
            return found
        if found is not None:
            await self._discard(found)
        # When tasks write, the driver has no client. It warns about the options that it could parse, but references can
        # hide their values from it; then the task's producer has to warn.
        REPORTED_ELSEWHERE.set(checkable(given) is not None)
        producer = Producer(**options)
        await producer.start()
        self._producers[key] = producer
        await self._close_oldest(MAX_KEPT)
        return producer

    async def _discard(self, producer: Producer) -> None:
        self._producers = OrderedDict((key, one) for key, one in self._producers.items() if one is not producer)
        # Ignore these errors: they name the undelivered records, which the caller reports already.
        with contextlib.suppress(KafkaError):
            await producer.abort(0, in_flight=True)
        with contextlib.suppress(KafkaError):
            await producer.close(0)

    async def _close_oldest(self, keep: int) -> None:
        while len(self._clusters) > keep:
            _, cluster = self._clusters.popitem(last=False)
            await cluster.close()
        # A kept producer has delivered its records: a task waits for them, or discards its producer.
        while len(self._producers) > keep:
            _, producer = self._producers.popitem(last=False)
            await producer.close()


_workers: dict[int, Worker] = {}


def worker() -> Worker:
    """Return the worker of this process.

    Spark forks processes, and a fork doesn't have the thread, so the worker is looked up by the process id.
    """
    pid = os.getpid()
    if pid not in _workers:
        _workers.clear()
        _workers[pid] = Worker()
    return _workers[pid]
