"""Lookups about partitions, sent to the broker that knows the answer, and repeated until they succeed.

Each broker gets a separate request: a broker that doesn't respond delays only its own partitions.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.start_lookup import Lookup
from aiokproto.runtime import create_task
from aiokproto.runtime.timeouts import wait_until

MAX_AT_ONCE = 500
"""Maximum number of partitions in one request. Encoding it and handling the response take one or two milliseconds."""

L = TypeVar("L", bound=Lookup)


class Lookups(ABC, Generic[L]):
    """Carries out the lookups that are waiting, one task per request.

    Attributes:
        waiting: The lookups that have no result yet.
    """

    _what = "lookup"

    def __init__(self, cluster: ClusterClient) -> None:
        self.waiting: dict[Cursor, L] = {}
        self._cluster = cluster
        self._wake = asyncio.Event()

    def metadata_changed(self) -> None:
        """Retry lookups that are waiting for newer metadata."""
        if self.waiting:
            self._wake.set()

    async def run(self) -> None:
        """Run until cancelled. Raises errors that end the consumer."""
        attempts: set[asyncio.Task[None]] = set()
        try:
            while True:
                # Clear the event before _due(). Every later change then wakes the task.
                self._wake.clear()
                for task in [task for task in attempts if task.done()]:
                    attempts.remove(task)
                    # result() raises an error that ends the consumer.
                    task.result()
                due, retry_at = self._due()
                for source, lookups in due.items():
                    # Start one task per request: a broker that doesn't respond then delays only its own lookups.
                    for start in range(0, len(lookups), MAX_AT_ONCE):
                        # Collect the lookups now and not when the task first runs: it would overwrite a seek in
                        # between.
                        task = create_task(
                            self._attempt(source, dict(lookups[start : start + MAX_AT_ONCE])),
                            name=f"aiokproto-{self._what}",
                        )
                        task.add_done_callback(lambda _: self._wake.set())
                        attempts.add(task)
                await wait_until(self._wake, retry_at)
        finally:
            for task in attempts:
                task.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)

    def _due(self) -> tuple[dict[int | None, list[tuple[Cursor, L]]], float | None]:
        """Return the lookups that are due, by broker, and the loop time of the next retry."""
        snapshot = self._cluster.snapshot
        now = asyncio.get_running_loop().time()
        due: dict[int | None, list[tuple[Cursor, L]]] = {}
        retry_at: float | None = None
        for cursor, lookup in self.waiting.items():
            if lookup.under_way or self._must_wait(cursor, lookup):
                continue
            # Newer metadata ends the wait: it may contain the missing leader.
            if lookup.retry_at > now and lookup.generation == snapshot.generation:
                retry_at = lookup.retry_at if retry_at is None else min(retry_at, lookup.retry_at)
                continue
            due.setdefault(self._source(cursor, lookup), []).append((cursor, lookup))
            # Mark it now and not in the task: the next round must not start a second lookup.
            lookup.under_way = True
            lookup.requested_at = now
            lookup.generation = snapshot.generation
        return due, retry_at

    async def _attempt(self, source: int | None, lookups: Mapping[Cursor, L]) -> None:
        """Make one attempt for these partitions."""
        # This doesn't need a finally: an error here ends the consumer.
        again = await self._ask(source, lookups)
        now = asyncio.get_running_loop().time()
        for lookup in lookups.values():
            lookup.under_way = False
            lookup.attempts = lookup.attempts + 1 if again else 0
            lookup.retry_at = now + self._cluster.backoff.delay(lookup.attempts) if again else 0.0

    def _must_wait(self, cursor: Cursor, lookup: L) -> bool:
        """Return whether the lookup must not be made yet."""
        return False

    def _source(self, cursor: Cursor, lookup: L) -> int | None:
        """Return the broker to ask; None if the partition has no leader."""
        return self._cluster.snapshot.leader(*cursor.partition)

    @abstractmethod
    async def _ask(self, source: int | None, lookups: Mapping[Cursor, L]) -> bool:
        """Ask a broker. Return whether some lookups have to be retried after a backoff."""
