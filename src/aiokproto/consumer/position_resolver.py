"""Start positions: the group's committed offset first, then the log, as ``auto_offset_reset`` says.

Each broker is queried by itself: one that does not respond delays its own partitions only. A failure never counts as
"no offset committed": applying ``auto_offset_reset`` to it would skip records, or repeat all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.broker_fetcher import wait_until
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.fetch_response import MISSING_FOR
from aiokproto.consumer.offsets import OffsetLookup, may_pass
from aiokproto.consumer.start_lookup import COMMITTED, EARLIEST, LATEST, StartLookup
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DeadlineError, KafkaError, UnknownTopicError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.offsets import GroupOffsets
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.consumer")

RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""``auto_offset_reset`` → the timestamp for ListOffsets; None to raise."""

MOST_AT_ONCE = 500
"""Most partitions of one request: one or two milliseconds to encode, and to handle the response."""

_GROUP = -1
"""Stands for the group coordinator among broker ids."""


class PositionResolver:
    """Looks up the first position of partitions, and a new one if a position is not in the log any more."""

    def __init__(
        self,
        cluster: ClusterClient,
        assignment: Assignment,
        lookup: OffsetLookup,
        group: GroupOffsets | None,
        reset: str,
    ) -> None:
        """Create a resolver; :meth:`run` does the work.

        Args:
            cluster: Metadata.
            assignment: The partitions.
            lookup: Looks up offsets in the log.
            group: The group's committed offsets; None without a group.
            reset: ``auto_offset_reset``: a key of :data:`RESETS`.
        """
        self._cluster = cluster
        self._assignment = assignment
        self._lookup = lookup
        self._group = group
        self._reset = reset
        self._wake = asyncio.Event()
        # A dictionary used as an ordered set.
        self._unresolved: dict[Cursor, None] = {}

    # Events

    def changed(self, cursors: Iterable[Cursor]) -> None:
        """Look up the positions of these partitions if they have none."""
        for cursor in cursors:
            if cursor.unresolved and self._assignment.cursors.get(cursor.partition) is cursor:
                self._unresolved[cursor] = None
                self._wake.set()
            else:
                # Sought, removed or failed: a request in flight finds its lookup outdated (_is_current).
                self._unresolved.pop(cursor, None)

    def metadata_changed(self) -> None:
        """Retry lookups that wait for newer metadata."""
        if self._unresolved:
            self._wake.set()

    def request(self, cursor: Cursor) -> None:
        """Look up a position even while the partition is held: a rebalance callback waits for it."""
        # Stays set: it belongs to this lookup, and a seek makes another.
        cursor.lookup.needed = True
        self._wake.set()

    def reset(self, cursor: Cursor, why: str) -> bool:
        """Apply ``auto_offset_reset`` to a partition whose position is not in the log.

        Returns:
            Whether it was applied: not while records are buffered, which are valid and delivered first.
        """
        # Its records were fetched before the log was cut, or belong to the former topic; both are still to be
        # delivered.
        if cursor.buffer:
            return False
        self._apply_policy(cursor, why)
        return True

    def _apply_policy(self, cursor: Cursor, why: str) -> None:
        start = RESETS[self._reset]
        if start is None:
            context = f"{cursor.partition}: {why}"
            self._assignment.fail(
                cursor, error_for(ErrorCode.OFFSET_OUT_OF_RANGE, context, "auto_offset_reset is 'none'")
            )
            return
        self._assignment.observer.reset(cursor.partition, -1 if cursor.position is None else cursor.position, why)
        log.info("%s: %s; continuing at the %s offset", cursor.partition, why, self._reset)
        self._assignment.reset(cursor, start)

    # Work

    async def run(self) -> None:
        """Look up positions until cancelled. Raises errors that end the consumer."""
        attempts: set[asyncio.Task[None]] = set()
        try:
            while True:
                # Before _due(): a change after it wakes.
                self._wake.clear()
                for task in [task for task in attempts if task.done()]:
                    attempts.remove(task)
                    # Raises the error that ends the consumer.
                    task.result()
                due, retry_at = self._due()
                for source, lookups in due.items():
                    # One task per request: a broker that does not respond delays its own lookups only.
                    for begin in range(0, len(lookups), MOST_AT_ONCE):
                        # Fixed here and not when the task first runs: a seek in between would be overwritten.
                        task = asyncio.create_task(
                            self._attempt(source, dict(lookups[begin : begin + MOST_AT_ONCE])), name="aiokproto-lookup"
                        )
                        task.add_done_callback(lambda _: self._wake.set())
                        attempts.add(task)
                await wait_until(self._wake, retry_at)
        finally:
            for task in attempts:
                task.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)

    def _due(self) -> tuple[dict[int | None, list[tuple[Cursor, StartLookup]]], float | None]:
        """Return the lookups that are due, by broker, and the loop time of the next retry."""
        snapshot = self._cluster.snapshot
        now = asyncio.get_running_loop().time()
        due: dict[int | None, list[tuple[Cursor, StartLookup]]] = {}
        retry_at: float | None = None
        for cursor in self._unresolved:
            lookup = cursor.lookup
            # Held: the group may move the offset until it is released.
            if lookup.under_way or (cursor.held and not lookup.needed):
                continue
            # Newer metadata ends the wait: it may have the missing leader.
            if lookup.retry_at > now and lookup.generation == snapshot.generation:
                retry_at = lookup.retry_at if retry_at is None else min(retry_at, lookup.retry_at)
                continue
            # None without a leader: OffsetLookup.once() then fails it, and refreshes the metadata.
            source = _GROUP if lookup.start == COMMITTED else snapshot.leader(*cursor.partition)
            due.setdefault(source, []).append((cursor, lookup))
            # Here and not in the task, so that the next round does not start a second one.
            lookup.under_way = True
            lookup.requested_at = now
            lookup.generation = snapshot.generation
        return due, retry_at

    async def _attempt(self, source: int | None, lookups: Mapping[Cursor, StartLookup]) -> None:
        """Make one attempt for these partitions."""
        # Without a finally: an error here ends the consumer.
        again = await (self._from_group if source == _GROUP else self._from_log)(lookups)
        now = asyncio.get_running_loop().time()
        for lookup in lookups.values():
            lookup.under_way = False
            lookup.attempts = lookup.attempts + 1 if again else 0
            lookup.retry_at = now + self._cluster.backoff(lookup.attempts) if again else 0.0

    async def _from_log(self, lookups: Mapping[Cursor, StartLookup]) -> bool:
        """Query the leader of the partitions. Return whether some have to be retried."""
        by_name = {cursor.partition: cursor for cursor in lookups}
        wanted = {cursor.partition: lookup.wanted for cursor, lookup in lookups.items()}
        found, failures = await self._lookup.once(wanted, self._cluster.config.request_timeout)
        again = False
        for partition, answer in found.items():
            cursor = by_name[partition]
            if _is_current(cursor, lookups):
                # First half of a lookup by time; the next round asks for the timestamp.
                if cursor.lookup.needs_end:
                    cursor.lookup.end = answer.offset
                elif answer.offset < 0:
                    # No record has this timestamp or a later one, so all records before this end are earlier.
                    self._assignment.resolved(cursor, cursor.lookup.end)
                else:
                    self._assignment.resolved(cursor, answer.offset, answer.leader_epoch)
        for partition, failure in failures.items():
            if _is_current(by_name[partition], lookups):
                again |= self._lookup_failed(by_name[partition], failure)
        return again

    def _lookup_failed(self, cursor: Cursor, failure: KafkaError) -> bool:
        """Note a failure. Return whether to retry."""
        lookup = cursor.lookup
        lookup.failed(str(failure))
        if self._cluster.snapshot.partition(*cursor.partition) is not None and not isinstance(
            failure, UnknownTopicError
        ):
            lookup.missing_since = None
        elif lookup.is_missing(asyncio.get_running_loop().time(), MISSING_FOR):
            context = f"ListOffsets of {cursor.partition}"
            self._assignment.fail(cursor, error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, context))
            return False
        if may_pass(failure, Situation(ListOffsetsRequest.api_key)):
            return True
        self._assignment.fail(cursor, failure)
        return False

    async def _from_group(self, lookups: Mapping[Cursor, StartLookup]) -> bool:
        """Query the coordinator for committed offsets. Return whether to retry."""
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        failures: Mapping[TopicPartition, KafkaError] = {}
        if self._group is not None:
            try:
                committed, failures = await self._group.lookup(
                    [cursor.partition for cursor in lookups], self._cluster.config.api_timeout
                )
            except KafkaError as error:
                # Never apply auto_offset_reset to a failure: that would skip records, or repeat all of them.
                return self._group_failed(lookups, error)
        again = False
        for cursor in lookups:
            if not _is_current(cursor, lookups):
                continue
            if (failure := failures.get(cursor.partition)) is not None:
                again |= self._group_failed({cursor: lookups[cursor]}, failure)
                continue
            position = committed.get(cursor.partition)
            if position is not None:
                self._assignment.resolved(cursor, position.offset, position.leader_epoch)
            elif (start := RESETS[self._reset]) is not None:
                # The next round looks in the log. Not a new lookup: attempts and `needed` carry over.
                cursor.lookup.start = start
            else:
                no_offset = "the group has committed no offset" if self._group is not None else "no offset is given"
                self._apply_policy(cursor, no_offset)
        return again

    def _group_failed(self, lookups: Mapping[Cursor, StartLookup], error: KafkaError) -> bool:
        action = classify(error, Situation(OffsetFetchRequest.api_key))
        if action is Action.STOP and not isinstance(error, DeadlineError):
            raise error
        log.warning("committed offsets: %s", error)
        for cursor in lookups:
            if _is_current(cursor, lookups):
                cursor.lookup.failed(str(error))
                if action is Action.FAIL:
                    self._assignment.fail(cursor, error)
        return action is not Action.FAIL


def _is_current(cursor: Cursor, lookups: Mapping[Cursor, StartLookup]) -> bool:
    # Each seek makes another StartLookup, so identity tells whether this one still counts.
    return cursor.lookup is lookups[cursor] and cursor.unresolved
