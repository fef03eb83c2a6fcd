"""Where to start: each cursor that does not know asks the group, then the log, as ``auto_offset_reset`` says."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from aiokproto.cluster import Cluster
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.cursor import COMMITTED, EARLIEST, LATEST, Cursor
from aiokproto.consumer.fetcher import MISSING_FOR
from aiokproto.consumer.offsets import OffsetLookup, may_pass
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, DeadlineError, KafkaError, UnknownTopicError, error_for
from aiokproto.group.offsets import GroupRequests
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.consumer")

RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""``auto_offset_reset`` → what to ask ListOffsets; None to raise."""


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
        group: GroupRequests | None,
        reset: str,
    ) -> None:
        self.resets = 0
        self._cluster = cluster
        self._assignment = assignment
        self._lookup = lookup
        self._group = group
        self._reset = reset
        self._wake = asyncio.Event()

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
        attempt = 0
        while True:
            lost = self._lost()
            if not lost:
                attempt = 0
                await self._wake.wait()
                self._wake.clear()
                continue
            generation = self._cluster.snapshot.generation
            again = await self._locate(lost)
            attempt = attempt + 1 if again else 0
            if again:
                await self._pause(attempt, generation)

    async def _pause(self, attempt: int, generation: int) -> None:
        """Wait before another attempt. A picture newer than that generation ends it: it may have the missing leader."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._cluster.changed(generation), self._cluster.backoff(attempt))

    def _lost(self) -> list[Cursor]:
        return [
            cursor
            for cursor in self._assignment.cursors.values()
            if cursor.fetch_offset is None and not cursor.held and cursor.error is None
        ]

    async def _locate(self, cursors: list[Cursor]) -> bool:
        """One attempt; True if some are to be tried again."""
        versions = {cursor: cursor.version for cursor in cursors}
        again = await self._from_group([cursor for cursor in cursors if cursor.start == COMMITTED], versions)
        wanted = {
            cursor.partition: cursor.start
            for cursor in cursors
            if cursor.start != COMMITTED and cursor.fetch_offset is None and versions[cursor] == cursor.version
        }
        if not wanted:
            return again
        by_name = {cursor.partition: cursor for cursor in cursors}
        found, failures = await self._lookup.once(wanted, self._cluster.config.request_timeout)
        for partition, answer in found.items():
            cursor = by_name[partition]
            if self._is_current(cursor, versions):
                if answer.offset < 0:
                    # No record is that late: whatever comes next is the first one.
                    cursor.start = LATEST
                    again = True
                else:
                    cursor.locate(answer.offset, answer.leader_epoch)
        for partition, failure in failures.items():
            if self._is_current(by_name[partition], versions):
                again |= self._not_located(by_name[partition], failure)
        self._assignment.moved()
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
        if not cursors:
            return False
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
        self._assignment.moved()
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
