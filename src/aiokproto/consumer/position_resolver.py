"""Start positions: the group's committed offset, or if there is none, a position in the log, as ``auto_offset_reset``
says.

A failure never counts as "no offset committed": applying ``auto_offset_reset`` to it would skip records, or repeat all
of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.coordinator_requests import RETRIED
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.lookups import Lookups
from aiokproto.consumer.new_partitions import follows_committed
from aiokproto.consumer.offset_reset import ResetPolicy
from aiokproto.consumer.offsets import MISSING_FOR, FoundOffset, OffsetLookup, may_pass, why_missing
from aiokproto.consumer.start_lookup import (
    COMMITTED,
    EARLIEST,
    LATEST,
    NEAREST,
    FormerPosition,
    ResetReason,
    StartLookup,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, DeadlineError, KafkaError, LogTruncationError, UnknownTopicError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.member import GroupMember
from aiokproto.runtime import current
from aiokproto.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.engine import Engine

log = logging.getLogger("aiokproto.consumer")

_NAMED = 5
"""Maximum number of partitions in a log line."""

_GROUP = -1
"""Represents the group coordinator where a broker id is expected."""


class PositionResolver(Lookups[StartLookup]):
    """Looks up the start positions of partitions, and a new position if one is no longer in the log."""

    def __init__(
        self,
        engine: Engine,
        cluster: ClusterClient,
        assignment: Assignment,
        lookup: OffsetLookup,
        group: GroupMember | None,
        policy: ResetPolicy,
    ) -> None:
        """Create a resolver; :meth:`run` does the work.

        Args:
            engine: Knows which partitions are new to the subscription.
            cluster: The cluster's metadata.
            assignment: The partitions.
            lookup: Looks up offsets in the log.
            group: The group member, which looks up committed offsets; None if there's no group.
            policy: ``auto_offset_reset``.
        """
        super().__init__(cluster)
        self._engine = engine
        self._assignment = assignment
        self._lookup = lookup
        self._group = group
        self._policy = policy

    # Events

    def changed(self, cursors: Iterable[Cursor]) -> None:
        """Look up the positions of these partitions if they have none."""
        for cursor in cursors:
            if cursor.unresolved and self._assignment.cursors.get(cursor.partition) is cursor:
                self.waiting[cursor] = cursor.lookup
                self._wake.set()
            else:
                # It was sought or removed, or has failed. The result of a request in flight will be dropped
                # (_is_current).
                self.waiting.pop(cursor, None)

    def request(self, cursor: Cursor) -> None:
        """Look up a position even while the partition is held: a rebalance callback may be waiting for it."""
        # It's never reset: it belongs to this lookup, and a seek creates a new one.
        cursor.lookup.needed = True
        self._wake.set()

    def reset(self, cursor: Cursor, reason: ResetReason) -> bool:
        """Apply ``auto_offset_reset`` to a partition whose position isn't in the log.

        Returns:
            Whether it was applied. It isn't while records are buffered: these are valid and are delivered first.
        """
        # Its records were fetched before the log was cut, or belong to the former topic. Either way they're delivered
        # first.
        # guard: what was fetched before a reset is delivered first
        if cursor.buffer:
            return False
        if self._policy.raises:
            self._fail(cursor, f"{cursor.partition} at offset {cursor.position}: {reason.value}")
        else:
            self._look_up(cursor, reason)
        return True

    def truncated(self, cursor: Cursor, offset: int | None, epoch: int) -> None:
        """Move a position because delivered records are no longer in the log (KIP-320).

        Args:
            cursor: The partition.
            offset: The offset where the log diverges from the delivered records; None if it's unknown.
            epoch: The log's epoch before that offset; -1 if unknown.
        """
        position = cursor.position
        assert position is not None, "records were delivered"
        if self._policy.raises:
            diverged = None if offset is None else OffsetAndMetadata(offset, "", epoch)
            at = OffsetAndMetadata(position, "", cursor.fetch.epochs.before(position))
            self._assignment.fail(cursor, LogTruncationError(cursor.partition, at, diverged))
        elif offset is None:
            self._look_up(cursor, ResetReason.TRUNCATED)
        else:
            former = FormerPosition(ResetReason.TRUNCATED, position, cursor.fetch.epochs.before(position))
            self._assignment.rewind(cursor, offset, epoch)
            self._assignment.reset_happened(cursor, former, offset)

    def _look_up(self, cursor: Cursor, reason: ResetReason) -> None:
        position = cursor.position
        assert position is not None, "a position is reset"
        former = FormerPosition(reason, position, cursor.fetch.epochs.before(position))
        log.info(
            "%s at offset %d: %s; looking up the %s offset", cursor.partition, position, reason.value, self._policy.name
        )
        cursor.fetch.moves += 1
        self._assignment.reset(cursor, self._policy.start(current().milliseconds(), reason), former)
        # The first lookup is immediate. Later ones pause: otherwise, a log that rejects the offset it has just returned
        # would be queried all the time.
        # guard: a log that rejects its own offset is requested after a pause
        if cursor.fetch.moves > 1:
            cursor.lookup.postpone(
                asyncio.get_running_loop().time() + self._cluster.backoff.delay(cursor.fetch.moves - 1),
                self._cluster.snapshot.generation,
            )

    def _fail(self, cursor: Cursor, context: str) -> None:
        detail = "auto_offset_reset is 'none'"
        self._assignment.fail(cursor, error_for(ErrorCode.OFFSET_OUT_OF_RANGE, context, detail))

    # Work

    def _must_wait(self, cursor: Cursor, lookup: StartLookup) -> bool:
        # The group may still move the offset while the partition is held.
        return bool(cursor.held) and not lookup.needed

    def _source(self, cursor: Cursor, lookup: StartLookup) -> int | None:
        # If there's no leader, it's None. In that case, OffsetLookup.once() fails the lookup and refreshes the
        # metadata.
        return _GROUP if lookup.start == COMMITTED else super()._source(cursor, lookup)

    async def _ask(self, source: int | None, lookups: Mapping[Cursor, StartLookup]) -> bool:
        return await (self._from_group if source == _GROUP else self._from_log)(lookups)

    async def _from_log(self, lookups: Mapping[Cursor, StartLookup]) -> bool:
        """Query the leader of the partitions. Return whether any have to be retried."""
        by_name = {cursor.partition: cursor for cursor in lookups}
        wanted = {cursor.partition: lookup.wanted for cursor, lookup in lookups.items()}
        # Read the epochs before the request: if there's an election in the meantime, the position has to be validated.
        snapshot = self._cluster.snapshot
        epochs = {partition: snapshot.leader_epoch(*partition) for partition in wanted}
        found, failures = await self._lookup.once(wanted, self._cluster.config.request_timeout)
        again = False
        at_end: dict[TopicPartition, int] = {}
        for partition, answer in found.items():
            cursor = by_name[partition]
            if _is_current(cursor, lookups):
                if cursor.lookup.uncommitted and cursor.lookup.start == LATEST:
                    at_end[partition] = answer.offset
                # This is the first half of a lookup. The next round sends the second request.
                if cursor.lookup.needs_end:
                    cursor.lookup.end = answer.offset
                elif cursor.lookup.start == NEAREST:
                    self._to_nearest(cursor, answer, epochs[partition])
                elif answer.offset < 0:
                    # No record has this timestamp or a later one, so all records before the end are earlier.
                    self._assignment.resolved(cursor, cursor.lookup.end)
                else:
                    self._assignment.resolved(cursor, answer.offset, answer.leader_epoch, epochs[partition])
        _report_starts(at_end)
        for partition, failure in failures.items():
            if _is_current(by_name[partition], lookups):
                again |= self._lookup_failed(by_name[partition], failure)
        return again

    def _to_nearest(self, cursor: Cursor, first: FoundOffset, leader_epoch: int) -> None:
        """Continue at the start of the log if the position was before it, else at the position, but not past the end of
        the log."""
        former = cursor.lookup.reset
        assert former is not None, "a start is not NEAREST"
        if former.offset <= first.offset:
            self._assignment.resolved(cursor, first.offset, first.leader_epoch, leader_epoch)
        else:
            # The log may have grown to the position in the meantime, for example if the leader lagged. If so, the
            # position stays.
            self._assignment.resolved(cursor, min(former.offset, cursor.lookup.end))

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
            detail = why_missing(self._cluster.snapshot.topics, cursor.partition)
            self._assignment.fail(cursor, error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, context, detail))
            return False
        if may_pass(failure, Situation(ListOffsetsRequest.api_key)):
            return True
        self._assignment.fail(cursor, failure)
        return False

    async def _from_group(self, lookups: Mapping[Cursor, StartLookup]) -> bool:
        """Query the coordinator for committed offsets. Return whether to retry."""
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        failures: Mapping[TopicPartition, KafkaError] = {}
        new: Collection[TopicPartition] = ()
        if self._group is not None:
            try:
                # Accept partial results: a partition with an open transaction, for example, must not hold up the
                # others.
                committed, failures = await self._group.committed(
                    [cursor.partition for cursor in lookups], self._cluster.config.api_timeout, partly=True
                )
                new = await self._new_ones(self._group, committed)
            except KafkaError as error:
                # Never apply auto_offset_reset to a failure: that would skip records, or repeat all of them.
                # guard: a failure is no reason for auto_offset_reset -> committed = {}
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
            elif cursor.partition in new:
                cursor.lookup.start = EARLIEST
            elif self._policy.raises:
                no_offset = "the group has committed no offset" if self._group is not None else "no offset is given"
                self._fail(cursor, f"{cursor.partition}: {no_offset}")
            else:
                # The next round looks in the log. It uses the same lookup, to keep the attempts and `needed`.
                cursor.lookup.start = self._policy.start(current().milliseconds())
                cursor.lookup.uncommitted = self._group is not None
        return again

    async def _new_ones(
        self, group: GroupMember, committed: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> set[TopicPartition]:
        """Return the partitions without a committed offset that have appeared since the group started."""
        if self._policy.start_at == EARLIEST:
            return set()
        none = [partition for partition, position in committed.items() if position is None]
        seen = {partition: self._engine.may_be_new(partition) for partition in none}
        new = {partition for partition, is_new in seen.items() if is_new}
        unclear = {partition for partition, is_new in seen.items() if is_new is None}
        topics = self._cluster.snapshot.topics
        others = [
            TopicPartition(name, number)
            for name in sorted({partition.topic for partition in unclear if partition.topic in topics})
            for number in range(len(topics[name].partitions))
            if (name, number) not in committed
        ]
        found = dict(committed)
        if others:
            more, failures = await group.committed(others, self._cluster.config.api_timeout)
            found |= more
            # If a lookup was rejected, the group's offsets aren't known, and a guess would skip records or repeat all
            # of them.
            for failure in failures.values():
                raise failure
        numbers: dict[str, set[int]] = defaultdict(set)
        for (name, number), position in found.items():
            if position is not None:
                numbers[name].add(number)
        return new | {partition for partition in unclear if follows_committed(partition, numbers[partition.topic])}

    def _group_failed(self, lookups: Mapping[Cursor, StartLookup], error: KafkaError) -> bool:
        action = classify(error, Situation(OffsetFetchRequest.api_key))
        if action is Action.STOP and not isinstance(error, DeadlineError):
            raise error
        # An error of individual partitions is logged only at debug level: another attempt may succeed for them.
        level = logging.DEBUG if isinstance(error, BrokerError) and action in RETRIED else logging.WARNING
        log.log(level, "committed offsets: %s", error)
        for cursor in lookups:
            if _is_current(cursor, lookups):
                cursor.lookup.failed(str(error))
                if action is Action.FAIL:
                    self._assignment.fail(cursor, error)
        return action is not Action.FAIL


def _report_starts(at_end: Mapping[TopicPartition, int]) -> None:
    """Log that a group starts at the end of the log, to explain why the application doesn't see older records."""
    if not at_end:
        return
    some = ", ".join(f"{partition} at offset {at_end[partition]}" for partition in sorted(at_end)[:_NAMED])
    more = f" and {len(at_end) - _NAMED} more" if len(at_end) > _NAMED else ""
    log.info(
        "consumer: the group has committed no offset of %s%s: it starts with new records there; "
        "auto_offset_reset='earliest' starts with the first ones",
        some,
        more,
    )


def _is_current(cursor: Cursor, lookups: Mapping[Cursor, StartLookup]) -> bool:
    # Each seek creates a new StartLookup, so identity shows whether this one is still current.
    # guard: an offset that was looked up before a seek is dropped -> True
    return cursor.lookup is lookups[cursor] and cursor.unresolved
