"""Where to start: each cursor that does not know asks the group, then the log, as ``auto_offset_reset`` says."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from aiokproto.cluster import Cluster
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.cursor import COMMITTED, EARLIEST, LATEST, Cursor
from aiokproto.consumer.fetcher import MISSING_FOR, wait_until
from aiokproto.consumer.offsets import OffsetLookup, may_pass
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, DeadlineError, KafkaError, UnknownTopicError, error_for
from aiokproto.group.offsets import GroupOffsets
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.consumer")

RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""``auto_offset_reset`` → what to ask ListOffsets; None to raise."""


_GROUP = -1
"""Whom to ask about a cursor that starts where the group has committed; others are numbers of brokers."""


@dataclass
class _Attempt:
    """Finding a cursor's position.

    Attributes:
        version: The cursor's: after a seek it is another errand.
        under_way: Whether somebody is being asked.
        count: Failures in a row.
        retry_at: Loop time before which nobody is asked again, ...
        generation: ... unless the metadata is newer than this.
    """

    version: int
    under_way: bool = False
    count: int = 0
    retry_at: float = 0.0
    generation: int = -1


class Locator:
    """Gives cursors their first position, and a new one after they fell out of the log.

    Attributes:
        resets: How often ``auto_offset_reset`` was made use of.
    """

    def __init__(
        self,
        cluster: Cluster,
        assignment: Assignment,
        lookup: OffsetLookup,
        group: GroupOffsets | None,
        reset: str,
    ) -> None:
        self.resets = 0
        self._cluster = cluster
        self._assignment = assignment
        self._lookup = lookup
        self._group = group
        self._reset = reset
        self._wake = asyncio.Event()
        self._attempts: dict[Cursor, _Attempt] = {}
        self._asked_for: set[Cursor] = set()

    def ask_for(self, cursor: Cursor) -> None:
        """Locate it even while it is held: a rebalance callback waits for its position."""
        self._asked_for.add(cursor)
        self.wake()

    def wake(self) -> None:
        """There may be a cursor that does not know where to start."""
        self._wake.set()

    def reset(self, cursor: Cursor, why: str) -> None:
        """A position means nothing in the log: go on as ``auto_offset_reset`` says, or fail."""
        if cursor.records or cursor.chunks:
            # What was fetched before is still good and comes first; asking again after it tells the same.
            cursor.retry_at = asyncio.get_running_loop().time() + self._cluster.backoff(1)
            return
        self._apply_policy(cursor, why)

    def _apply_policy(self, cursor: Cursor, why: str) -> None:
        start = RESETS[self._reset]
        if start is None:
            context = f"{cursor.partition}: {why}"
            cursor.fail(error_for(ErrorCode.OFFSET_OUT_OF_RANGE, context, "auto_offset_reset is 'none'"))
            self._assignment.arrived(cursor)
            return
        self.resets += 1
        log.info("%s: %s; going on from the %s", cursor.partition, why, self._reset)
        cursor.seek(start)
        self.wake()

    async def run(self) -> None:
        """Locate, for ever. Raises what ends it."""
        asking: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._wake.clear()
                for task in [task for task in asking if task.done()]:
                    asking.remove(task)
                    task.result()
                due, retry_at = self._due()
                for source, cursors in due.items():
                    task = asyncio.create_task(self._ask(source, cursors), name="aiokproto-locate")
                    task.add_done_callback(lambda _: self._wake.set())
                    asking.add(task)
                await wait_until(self._wake, retry_at)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def _due(self) -> tuple[dict[int | None, list[Cursor]], float | None]:
        """Whom to ask about which cursors now, and when to look again. Each broker is asked by itself: one that does
        not answer holds up its own partitions alone."""
        snapshot = self._cluster.snapshot
        now = asyncio.get_running_loop().time()
        before, self._attempts = self._attempts, {}
        due: dict[int | None, list[Cursor]] = {}
        retry_at: float | None = None
        for cursor in self._lost():
            attempt = before.get(cursor)
            if attempt is None or attempt.version != cursor.version:
                attempt = _Attempt(cursor.version)
            self._attempts[cursor] = attempt
            if attempt.under_way:
                continue
            # Newer metadata ends the wait: it may have the missing leader.
            if attempt.retry_at > now and attempt.generation == snapshot.generation:
                retry_at = attempt.retry_at if retry_at is None else min(retry_at, attempt.retry_at)
                continue
            source = _GROUP if cursor.start == COMMITTED else snapshot.leader(*cursor.partition)
            due.setdefault(source, []).append(cursor)
            attempt.under_way = True
            attempt.generation = snapshot.generation
        return due, retry_at

    def _lost(self) -> list[Cursor]:
        lost = [
            cursor
            for cursor in self._assignment.cursors.values()
            if cursor.fetch_offset is None and cursor.error is None
        ]
        self._asked_for.intersection_update(lost)
        return [cursor for cursor in lost if not cursor.held or cursor in self._asked_for]

    async def _ask(self, source: int | None, cursors: list[Cursor]) -> None:
        """One attempt for these."""
        attempts = [self._attempts[cursor] for cursor in cursors]
        versions = {cursor: cursor.version for cursor in cursors}
        again = await (self._from_group if source == _GROUP else self._from_log)(cursors, versions)
        now = asyncio.get_running_loop().time()
        for attempt in attempts:
            attempt.under_way = False
            attempt.count = attempt.count + 1 if again else 0
            attempt.retry_at = now + self._cluster.backoff(attempt.count) if again else 0.0
        self._assignment.moved()

    async def _from_log(self, cursors: list[Cursor], versions: dict[Cursor, int]) -> bool:
        """Ask the leader, the same for all; True if some are to be tried again."""
        by_name = {cursor.partition: cursor for cursor in cursors}
        wanted = {cursor.partition: cursor.start for cursor in cursors}
        found, failures = await self._lookup.once(wanted, self._cluster.config.request_timeout)
        again = False
        for partition, answer in found.items():
            cursor = by_name[partition]
            if self._is_current(cursor, versions):
                if answer.offset < 0:
                    # No record is that late: whatever comes next is the first one.
                    cursor.start = LATEST
                else:
                    cursor.locate(answer.offset, answer.leader_epoch)
        for partition, failure in failures.items():
            if self._is_current(by_name[partition], versions):
                again |= self._not_located(by_name[partition], failure)
        return again

    def _is_current(self, cursor: Cursor, versions: dict[Cursor, int]) -> bool:
        return versions[cursor] == cursor.version and cursor.fetch_offset is None

    def _not_located(self, cursor: Cursor, failure: KafkaError) -> bool:
        cursor.failure = str(failure)
        now = asyncio.get_running_loop().time()
        known = self._cluster.snapshot.partition(*cursor.partition)
        missing = known is None or isinstance(failure, UnknownTopicError)
        if not missing:
            cursor.missing_since = None
        elif cursor.missing_since is None:
            cursor.missing_since = now
        elif now - cursor.missing_since >= MISSING_FOR:
            context = f"ListOffsets of {cursor.partition}"
            failure = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, context)
            cursor.fail(failure)
            self._assignment.arrived(cursor)
            return False
        if may_pass(failure):
            return True
        cursor.fail(failure)
        self._assignment.arrived(cursor)
        return False

    async def _from_group(self, cursors: list[Cursor], versions: dict[Cursor, int]) -> bool:
        """Start where the group has committed; where it has not, as the policy says. True if to be tried again."""
        committed: dict[TopicPartition, OffsetAndMetadata | None] = {}
        if self._group is not None:
            try:
                committed = await self._group.committed(
                    [cursor.partition for cursor in cursors], self._cluster.config.api_timeout
                )
            except (DeadlineError, BrokerError, ConnectionError) as error:
                # Never the reset policy because of a failure: that would skip records, or repeat all.
                return self._group_failed(cursors, versions, error)
        for cursor in cursors:
            if not self._is_current(cursor, versions):
                continue
            position = committed.get(cursor.partition)
            if position is not None:
                cursor.locate(position.offset, position.leader_epoch)
            elif (start := RESETS[self._reset]) is not None:
                cursor.start = start
            else:
                self._apply_policy(cursor, "nothing is committed to start from")
        return False

    def _group_failed(
        self, cursors: list[Cursor], versions: dict[Cursor, int], error: DeadlineError | BrokerError | ConnectionError
    ) -> bool:
        for cursor in cursors:
            if self._is_current(cursor, versions):
                cursor.failure = str(error)
                if isinstance(error, BrokerError) and not error.retriable:
                    cursor.fail(error)
                    self._assignment.arrived(cursor)
        log.warning("committed offsets: %s", error)
        return not (isinstance(error, BrokerError) and not error.retriable)
