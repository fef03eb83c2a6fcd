"""The consumer's part of a run (:meth:`Consumer.run`): partitions that come and go, retries, and commits.

When the run ends, the position of each partition moves back to its first unfinished record. The next reader, this
consumer or another, starts there.

Two things can never happen: a commit past an unfinished record (the assignment calls :meth:`ConsumerRunner.unfinished`
for each commit, whatever its cause); two concurrent calls for one key, even across a rebalance or a seek (no call for a
partition starts while calls from before are running).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from aiokproto.application.calls import calling
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.running.failed import Failures
from aiokproto.consumer.running.options import RunOptions
from aiokproto.errors import KafkaError
from aiokproto.running.runner import CANCELLED_WITHIN, Runner, goes_on
from aiokproto.running.scheduler import Backlog, Scheduler, Work
from aiokproto.running.status import STUCK_AFTER
from aiokproto.running.summary import TopicCounts
from aiokproto.texts import repr_of
from aiokproto.types import Record, TopicPartition

log = logging.getLogger("aiokproto.consumer")

_COMMIT_TIMEOUT = 5.0
"""The timeout for the commit at the end of a run, in seconds."""


class ConsumerRunner(Runner):
    """One call of :meth:`Consumer.run`. ``deserializing`` is None if there are no deserializers."""

    def __init__(
        self, engine: Engine, options: RunOptions, deserializing: DeserializingReader[Any, Any] | None
    ) -> None:
        scheduler = Scheduler(options.order, options.limits)
        super().__init__("aiokproto-consumer-run", options.plan, scheduler, log, engine.observer.hooks)
        self._deserializing = deserializing
        self._engine = engine
        self._assignment = engine.assignment
        self._options = options
        self._failures = Failures(options, engine.config.group)
        # The backlog of each partition. A dropped backlog stays here until its partition is revoked.
        self._backlogs: dict[TopicPartition, Backlog] = {}
        # Backlogs from before a seek or a revocation whose calls are still running. Until these end, no more calls for
        # their partition start.
        self._leaving: dict[TopicPartition, set[Backlog]] = {}
        # Retry-topic partitions whose next record is not due, with the timers that continue them.
        self._undue: dict[TopicPartition, asyncio.TimerHandle] = {}
        # Batches that are waiting for more records, with the timers that end the wait.
        self._gathering: dict[Backlog, tuple[Work, asyncio.TimerHandle]] = {}

    def _take_over(self) -> None:
        self._assignment.mark_processed()
        self._assignment.end_turn()
        self._assignment.runner = self._assignment.last_runner = self
        self._engine.reader.owner = self

    def _closing(self) -> bool:
        return self._engine.closing

    # Records in

    async def _take_records(self) -> None:
        reader = self._engine.reader
        while True:
            while self._scheduler.full:
                self._scheduler.all_gathered()
                self._has_room.clear()
                self._wake()
                await self._has_room.wait()
            await reader.open(by=self)
            await self._take()
            # Let the workers run: open() doesn't wait while records are buffered.
            await asyncio.sleep(0)

    async def _take(self) -> None:
        """Take open records of one partition, up to its limit of pending records."""
        cursor = self._assignment.served()
        backlog = self._backlog(cursor)
        room = self._scheduler.room(backlog, len(self._assignment.cursors))
        due = self._due(cursor, room)
        try:
            records = await self._taken(due) if due else []
        finally:
            self._assignment.end_turn()
        if backlog.source != cursor.version or self._assignment.cursors.get(cursor.partition) is not cursor:
            # The partition was sought, revoked or lost while deserializers were awaited.
            return
        if records:
            try:
                with calling("order"):
                    self._scheduler.put(backlog, records)
            except BaseException:
                # The function that returns lanes failed. Seek back: these records, and any unfinished records before
                # them, are delivered again.
                first = records[0].offset if backlog.lowest is None else backlog.lowest
                self._assignment.seek(cursor.partition, first)
                raise
        backlog.full = self._scheduler.room(backlog, len(self._assignment.cursors)) == 0
        if self._options.batch_wait:
            if backlog.full:
                self._scheduler.gathered(backlog)
            self._time_gathering(backlog)
        self._fill(cursor)
        self._wake()

    def _time_gathering(self, backlog: Backlog) -> None:
        """Limit how long a batch waits for more records."""
        work = self._scheduler.gathering(backlog)
        timed, timer = self._gathering.get(backlog, (None, None))
        if timed is work:
            return
        if timer is not None:
            timer.cancel()
            del self._gathering[backlog]
        if work is not None:
            self._gathering[backlog] = work, self._loop.call_later(self._options.batch_wait, self._gathered, backlog)

    def _gathered(self, backlog: Backlog) -> None:
        del self._gathering[backlog]
        self._scheduler.gathered(backlog)
        self._wake()

    async def _taken(self, most: int) -> list[Record[Any, Any]]:
        if self._deserializing is not None:
            return await self._deserializing.take(most, self)
        return self._assignment.take(most)

    def _due(self, cursor: Cursor, room: int) -> int:
        """Return how many open records may be taken. If a retry topic's record is not due, its partition waits until it
        is."""
        topics = self._options.retry_topics
        records = self._assignment.open
        if topics is None or cursor.partition.topic not in topics.topics:
            return min(room, len(records))
        for count, record in enumerate(reversed(records)):
            if count >= room:
                return room
            if (wait := topics.wait(record)) > 0:
                partition = cursor.partition
                self._undue[partition] = self._loop.call_later(wait, self._is_due, partition, cursor.version)
                return count
        return len(records)

    def _is_due(self, partition: TopicPartition, version: object) -> None:
        self._undue.pop(partition, None)
        cursor = self._assignment.cursors.get(partition)
        if cursor is not None and cursor.version == version:
            self._fill(cursor)

    def _fill(self, cursor: Cursor) -> None:
        backlog = self._backlogs.get(cursor.partition)
        full = cursor.partition in self._undue or (backlog is not None and backlog.full)
        if full != cursor.full:
            self._assignment.fill(cursor, full)

    def _backlog(self, cursor: Cursor) -> Backlog:
        backlog = self._backlogs.get(cursor.partition)
        if backlog is None:
            backlog = self._backlogs[cursor.partition] = Backlog(cursor.partition, cursor.version)
            self._topics.setdefault(cursor.partition.topic, TopicCounts())
            # guard: nothing of a partition is handled while earlier calls still run
            #     -> self._scheduler.block(backlog, False)
            self._scheduler.block(backlog, cursor.partition in self._leaving)
        return backlog

    def _relieve(self, backlog: Backlog) -> None:
        """Continue the work that was waiting for a call to end."""
        scheduler = self._scheduler
        if backlog.full and scheduler.relieved(backlog, len(self._assignment.cursors)):
            backlog.full = False
            cursor = self._assignment.cursors.get(backlog.partition)
            if cursor is not None and cursor.version == backlog.source:
                self._fill(cursor)
        if not self._has_room.is_set() and scheduler.has_room:
            self._has_room.set()
        if backlog.dropped and not backlog.running:
            self._calls_ended(backlog)
        if scheduler.stopped and not scheduler.running:
            self._drain.finish()

    # Failed calls

    async def _recover(self, work: Work, error: Exception) -> None:
        """Repeat the call later, or write its records elsewhere. Raise the error if neither is possible."""
        work.attempts += 1
        partition = work.backlog.partition
        counts = self._topics[partition.topic]
        if work.backlog.dropped:
            log.info("run: %s, which is not assigned any more: %s", work, repr_of(error))
        elif (pause := self._failures.pause(work, error)) is not None:
            counts.retried += 1
            # A stopping run makes no more calls. The record is delivered again after the restart.
            following = "the run ends" if self._stopping.is_set() else f"the next is in {pause * 1000:.0f} ms"
            log.info("run: %s: attempt %d failed, %s: %s", work, work.attempts, following, repr_of(error))
            self._postpone(work)
            self._timed(pause, work)
        elif self._failures.splits(work, error):
            log.info("run: %s: the records are handled one by one: %s", work, repr_of(error))
            work.item, work.rest = work.item[:1], work.item[1:]
            work.attempts = 0
            self._postpone(work)
            self._scheduler.due(work)
        else:
            kind = await self._failures.give_up(work, error)
            counts.retried += kind == "retried"
            counts.dead_lettered += kind == "dead-lettered"
            self._finish(work)

    # Events of the consumer

    @property
    def full(self) -> bool:
        """Whether no records are taken because the limit on unfinished records is reached."""
        return not self._has_room.is_set()

    def unfinished(self) -> dict[TopicPartition, int]:
        """Return the lowest unfinished offset of each partition that has one."""
        return {partition: lowest for partition, each in self._backlogs.items() if (lowest := each.lowest) is not None}

    def is_busy(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether a call for one of these partitions is running and may still end."""
        return any(each.running and not each.abandoned for each in self._of(partitions))

    def oldest(self) -> float | None:
        """Return the loop time when the oldest running call started. Calls that were cancelled but don't end, and calls
        whose partition is being revoked, don't count."""
        revoked = {id(backlog) for backlog in self._backlogs.values() if backlog.dropped}
        running = (work for work in self._running() if goes_on(work) and id(work.backlog) not in revoked)
        return min((work.started_at for work in running), default=None)

    def changed(self, cursors: Collection[Cursor]) -> None:
        """Note that cursors were added, removed, sought, paused, held or released."""
        for cursor in cursors:
            backlog = self._backlogs.get(cursor.partition)
            if backlog is None:
                continue
            # guard: records from before a seek are not handled after it
            if backlog.source != cursor.version:
                self._forget(backlog)
            else:
                blocked = cursor.paused or bool(cursor.held) or cursor.partition in self._leaving
                self._scheduler.block(backlog, blocked)
        self._wake()

    def revoke(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Start no more calls for these partitions. Running calls have until the drain timeout or the deadline,
        whichever is earlier, to end."""
        backlogs = self._of(partitions)
        for backlog in backlogs:
            self._scheduler.drop(backlog)
        # guard: the drain of a revocation is limited -> deadline
        at = min(self._loop.time() + self._plan.drain_timeout, deadline)
        self._loop.call_at(at, partial(self._cancel_running, backlogs, "the partition is revoked"))
        self._loop.call_at(at + CANCELLED_WITHIN, partial(self._abandon, backlogs))

    def _abandon(self, backlogs: list[Backlog]) -> None:
        """Let a rebalance continue without waiting for calls that were cancelled but don't end."""
        for backlog in backlogs:
            if backlog.running:
                backlog.abandoned = True
                names = ", ".join(map(str, backlog.running))
                log.error("run: handlers do not end although they are cancelled: %s is revoked without them", names)
        self._engine.reader.give_up_waiting()

    def _of(self, partitions: Collection[TopicPartition]) -> list[Backlog]:
        current = [self._backlogs[each] for each in partitions if each in self._backlogs]
        return current + [each for partition in partitions for each in self._leaving.get(partition, ())]

    def _forget(self, backlog: Backlog) -> None:
        """Drop a backlog because its partition was revoked, lost or sought."""
        partition = backlog.partition
        del self._backlogs[partition]
        if (timer := self._undue.pop(partition, None)) is not None:
            timer.cancel()
        self._scheduler.drop(backlog)
        self._time_gathering(backlog)
        if backlog.running:
            self._leaving.setdefault(partition, set()).add(backlog)
            # After a seek, the calls may finish: the partition still belongs to this consumer.
            # guard: handlers of lost partitions are cancelled at once
            if partition not in self._assignment.cursors:
                self._cancel_running([backlog], "the partition is not assigned any more")
        if (cursor := self._assignment.cursors.get(partition)) is not None:
            self._fill(cursor)
        self._relieve(backlog)

    def _calls_ended(self, backlog: Backlog) -> None:
        """Note that the last call of a dropped backlog has ended."""
        partition = backlog.partition
        leaving = self._leaving.get(partition)
        if leaving is not None:
            leaving.discard(backlog)
            if not leaving:
                del self._leaving[partition]
                cursor = self._assignment.cursors.get(partition)
                if cursor is not None:
                    self.changed([cursor])
        # A revocation may be waiting for it.
        self._engine.reader.give_up_waiting()

    def _running(self) -> list[Work]:
        leaving = [each for backlogs in self._leaving.values() for each in backlogs]
        return [work for backlog in (*self._backlogs.values(), *leaving) for work in backlog.running]

    # The end

    def _release(self) -> None:
        """Release the consumer. Each partition continues at its first unfinished record."""
        unfinished = self.unfinished()
        self._assignment.runner = self._engine.reader.owner = None
        for timer in (*self._timers, *self._undue.values(), *(timer for _, timer in self._gathering.values())):
            timer.cancel()
        for partition, cursor in list(self._assignment.cursors.items()):
            backlog = self._backlogs.get(partition)
            if backlog is not None and backlog.source == cursor.version and partition in unfinished:
                # guard: after run() each partition continues at its first unfinished record
                self._assignment.seek(partition, unfinished[partition])
            if cursor.full:
                self._assignment.fill(cursor, False)
        self._engine.reader.give_up_waiting()

    async def _commit(self) -> None:
        # close() makes the last commit itself.
        if self._engine.member is not None and self._engine.config.enable_auto_commit and not self._engine.closing:
            try:
                await self._engine.commit_processed(_COMMIT_TIMEOUT)
            except KafkaError as error:
                log.warning("run: the last commit: %s", error)

    def _live(self) -> Iterable[Backlog]:
        return self._backlogs.values()

    def _stuck_after(self) -> float:
        group = self._engine.config.group
        return STUCK_AFTER if group is None else min(STUCK_AFTER, group.max_poll_interval / 2)
