"""Periodic work on the logs: retention, compaction, background flushes, checkpoints (Kafka's LogManager and
LogCleaner).

Everything runs in the event loop, in steps that yield. Only fsync and compacting batches need threads. At most one task
of each kind runs at a time: opening, cleaning, flushing. ``_compacting`` also keeps the cleaner from running at the
same time as a compaction requested by a test.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from weakref import WeakSet

from aiokproto.broker.log import Log
from aiokproto.broker.log.compaction import Compaction
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import Partition
from aiokproto.broker.opening import OpeningThread
from aiokproto.errors import KafkaError
from aiokproto.runtime import create_task

log = logging.getLogger("aiokproto.broker")


class LogManager:
    """Runs the periodic work on all logs of a cluster."""

    def __init__(self, state: ClusterState, thread: OpeningThread) -> None:
        self._state = state
        self._thread = thread
        self._cleaning: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._rolled: set[Log] = set()
        self._flushing: asyncio.Task[None] | None = None
        # Two compactions of the same log would each replace segments that the other is reading.
        self._compacting = asyncio.Lock()
        # Logs with an unreadable batch are left out, because the batch would stop every run.
        self._uncleanable: WeakSet[Log] = WeakSet()

    def start(self) -> None:
        """Open the logs that no request has needed yet, in the background, so retention applies to them too."""
        unopened = [partition for partition in self._state.partitions() if partition.opened is None]
        if unopened:
            self._opening = create_task(self._open(unopened))

    async def _open(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            # Open one log at a time, because that may read a whole segment, and requests must be served in between.
            await asyncio.sleep(0)
            if self._state.find_partition(partition.topic, partition.index) is not partition:
                continue
            try:
                partition.open()
            except (KafkaError, OSError):
                log.exception("%s-%d cannot be opened", partition.topic, partition.index)

    def retain(self) -> None:
        """Delete segments beyond retention, and forget producers after ``producer.id.expiration.ms``."""
        now = self._state.clock.wall()
        forgotten = now - self._state.options.number("producer.id.expiration.ms")
        for opened in self._state.logs():
            opened.retain(now)
            opened.forget_producers(forgotten)

    def checkpoint(self) -> None:
        """Flush the logs that are due according to ``flush.ms``, and write the checkpoint files."""
        now = self._state.clock.wall()
        for opened in self._state.logs():
            opened.flush_if_due(now)
        self._state.checkpoint()

    def clean(self) -> None:
        """Start compacting the logs that are due, unless the previous run is still active."""
        for opened in self._state.logs():
            # Segment files replaced by compaction are kept for file.delete.delay.ms: a Fetch may be reading them.
            opened.purge(self._state.clock.wall())
        if self._cleaning is None or self._cleaning.done():
            compacted = self._compacted(self._state.partitions())
            due = [
                partition
                for partition in compacted
                if partition.log not in self._uncleanable and self._compaction_of(partition).due
            ]
            if due:
                self._cleaning = create_task(self._clean(due))

    def flush_behind(self, rolled: Log) -> None:
        """Flush the complete segments of a log in a thread, so they don't need recovery after a crash."""
        self._rolled.add(rolled)
        if self._flushing is None or self._flushing.done():
            self._flushing = create_task(self._flush())

    async def _flush(self) -> None:
        while self._rolled:
            rolled = self._rolled.pop()
            # Collect the files in the event loop: the thread must not look at the log, which appends change.
            unflushed = rolled.unflushed_files()
            try:
                await asyncio.to_thread(unflushed.sync)
            except OSError:
                log.exception("%s cannot be flushed", rolled.directory)
            else:
                rolled.mark_flushed(unflushed.end)

    async def compact(self, partitions: Iterable[Partition]) -> None:
        """Compact partitions up to their current end. If cancelled, partitions that haven't been compacted yet keep
        their segments."""
        for partition in partitions:
            # The active segment is never compacted. Once it's rolled, everything up to the current end can be.
            partition.log.roll(self._state.clock.wall())
            await self._compact(partition)

    async def close(self) -> None:
        """Cancel the background tasks. A log that is being compacted keeps its segments."""
        tasks = [task for task in (self._opening, self._cleaning, self._flushing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._opening = self._cleaning = self._flushing = None

    def _compacted(self, partitions: Iterable[Partition]) -> list[Partition]:
        return [found for found in partitions if found.opened is not None and found.opened.config.compact]

    def _compaction_of(self, partition: Partition) -> Compaction:
        return Compaction(partition.log, self._state.clock.wall())

    async def _clean(self, partitions: list[Partition]) -> None:
        # Like Kafka's LogCleanerManager, start with the dirtiest log, because the run may be cut short.
        for partition in sorted(partitions, key=lambda dirty: -self._compaction_of(dirty).ratio):
            try:
                await self._compact(partition)
            except KafkaError as error:
                # The mark stays until the next start, like Kafka's LogCleanerManager.markPartitionUncleanable().
                self._uncleanable.add(partition.log)
                log.warning(
                    "%s-%d cannot be compacted, and stays as it is until the cluster is started again: %s",
                    partition.topic,
                    partition.index,
                    error,
                )
            except OSError:
                # Don't mark the log: a full disk doesn't stay full.
                log.exception("%s-%d cannot be compacted", partition.topic, partition.index)

    async def _compact(self, partition: Partition) -> None:
        async with self._compacting:
            compacted = partition.log
            steps = self._compaction_of(partition).run(self._state.options.number("log.cleaner.dedupe.buffer.size"))
            try:
                by_thread = next(steps, None)
                while by_thread is not None:
                    if by_thread:
                        by_thread = await self._do_by_thread(steps)
                    else:
                        await asyncio.sleep(0)
                        by_thread = next(steps, None)
                    # The topic may have been deleted while this task was suspended, or the log may have been replaced.
                    known = self._state.find_partition(partition.topic, partition.index)
                    if known is not partition or partition.log is not compacted:
                        return
            finally:
                steps.close()

    async def _do_by_thread(self, steps: Iterator[bool]) -> bool | None:
        """Do the next step of a compaction in the thread. When this returns, the step has ended, even if cancelled."""
        future = self._thread.run(partial(next, steps, None))
        try:
            return await asyncio.shield(future)
        finally:
            # If cancelled, wait for the step as well: it's short, and the files that it's writing to must not be
            # closed.
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
