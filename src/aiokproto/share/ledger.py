"""The ledger of acquired records: which are being processed, and which acknowledgements are due. Pure.

An :class:`AcquiredPartition` represents one partition at one leader in one share session. It ends with the leadership
or the session (:meth:`AcquiredPartition.lose`). When it ends, the outcome of all its acknowledgements is an error. An
acknowledgement is never sent in a later session: by then, the broker may have delivered the record again, even to this
member, and would mistake the old acknowledgement for one of the new delivery.

A record goes through these states (``ShareRecord._state``)::

    HELD ──acknowledge──▶ QUEUED ──take──▶ SENT ──answered──▶ DONE
                             ▲                │
                             └─────retry──────┘

For each partition in a request, the broker applies either all acknowledgements or none. So acknowledgements whose lock
has expired aren't sent. If the broker still finds a record that isn't locked, it applies none of them, and they're sent
again, separately for each lock. Renewals are sent in a separate request, because a group can forbid them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.share.acknowledgement import Acknowledgement, AcknowledgeOutcome
from aiokproto.types import Header, Record, TimestampType, TopicPartition

_LAST_TRY = 0.1
"""If less than this fraction of a lock's duration is left, its renewal isn't retried."""

_COLLECTED_FOR = 0.75
"""The fraction of a lock's duration that a record may wait for others. A renewal is due earlier, and has started the
lock over by then. If there's no renewal, the rest of the time is for processing."""


class RecordState(Enum):
    """The state of a delivered record on its way to an outcome."""

    HELD = "being processed"
    QUEUED = "acknowledged, not sent"
    SENT = "acknowledged, sent"
    DONE = "the outcome is known"


class ShareRecord(Record):
    """A record that is locked for this member of a share group.

    Attributes:
        delivery_count: How often it was delivered to members of the group, including this time; 1 for the first
            delivery. The limit is the group's ``share.delivery.count.limit``.
        acknowledgement: How it was acknowledged; None if it hasn't been.
    """

    __slots__ = ("_ack", "_lock", "_state", "acknowledgement", "delivery_count")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
        timestamp_type: TimestampType,
        leader_epoch: int,
        delivery_count: int,
        lock: AcquisitionLock,
    ) -> None:
        super().__init__(topic, partition, offset, timestamp, key, value, headers, timestamp_type, leader_epoch)
        self.delivery_count = delivery_count
        self.acknowledgement: Acknowledgement | None = None
        self._lock = lock
        self._state = RecordState.HELD
        self._ack: QueuedAck | None = None

    @property
    def lock_deadline(self) -> float:
        """When its acquisition lock ends, on the event loop's clock (``loop.time()``). A renewal moves it.

        The broker's lock ends a little later, because the client counts from when it sent the request.
        """
        return self._lock.deadline

    def replaced_by(self, record: Record) -> ShareRecord:
        """Return ``record``, which an interceptor has substituted for this record, with this record's lock."""
        return ShareRecord(
            self.topic,
            self.partition,
            self.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            record.timestamp_type,
            record.leader_epoch,
            self.delivery_count,
            self._lock,
        )

    def __repr__(self) -> str:
        return f"Share{super().__repr__()[:-1]}, delivery_count={self.delivery_count})"

    def __reduce__(self) -> tuple[type[Record], tuple[object, ...]]:
        # A copy, or a record in another process, can't be acknowledged, so make it a plain record.
        return Record, (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.key,
            self.value,
            self.headers,
            self.timestamp_type,
            self.leader_epoch,
        )


class AcquisitionLock:
    """The lock granted by one response, for all records in a partition that it has acquired or renewed.

    Attributes:
        acquired: The partition that the records are in.
        acquired_at: The loop time when the lock was first held, which is when the request was sent.
        granted_at: The loop time when the current lock started. A renewal moves it.
        deadline: The loop time when the lock ends.
        renew_at: The loop time when a renewal is due.
        deliver_by: The loop time until when its records may wait, to be delivered together with others.
    """

    __slots__ = ("acquired", "acquired_at", "deadline", "deliver_by", "granted_at", "renew_at")

    def __init__(self, acquired: AcquiredPartition, acquired_at: float, granted_at: float, duration: float) -> None:
        self.acquired = acquired
        self.acquired_at = acquired_at
        self.granted_at = granted_at
        self.deadline = granted_at + duration
        self.renew_at = granted_at + duration / 2
        self.deliver_by = granted_at + duration * _COLLECTED_FOR

    def renewed(self, granted_at: float, duration: float) -> AcquisitionLock:
        """Return the lock of records that were renewed."""
        return AcquisitionLock(self.acquired, self.acquired_at, granted_at, duration)

    def failure(self, now: float) -> KafkaError | None:
        """Return why the lock is no longer held; None if it's held."""
        if self.acquired.lost is not None:
            return self.acquired.lost
        if now < self.deadline:
            return None
        return error_for(
            ErrorCode.INVALID_RECORD_STATE,
            str(self.acquired.partition),
            f"the acquisition lock expired {now - self.deadline:.1f} s ago",
        )


class QueuedAck:
    """An acknowledgement on its way.

    Attributes:
        first: The first offset.
        last: The last offset.
        kind: How the records are acknowledged.
        lock: The lock of the records.
        record: The record; None for offsets that weren't delivered.
        cause: The failure that kept the records from being delivered, if any.
        reported: Whether to report the outcome to the application.
    """

    __slots__ = ("cause", "first", "kind", "last", "lock", "record", "reported")

    def __init__(
        self,
        first: int,
        last: int,
        kind: Acknowledgement,
        lock: AcquisitionLock,
        record: ShareRecord | None = None,
        cause: KafkaError | None = None,
        *,
        reported: bool = True,
    ) -> None:
        self.first = first
        self.last = last
        self.kind = kind
        self.lock = lock
        self.record = record
        self.cause = cause
        self.reported = reported

    def outcome(self, error: KafkaError | None) -> AcknowledgeOutcome:
        """Return the outcome for the application."""
        topic, partition = self.lock.acquired.partition
        return AcknowledgeOutcome(topic, partition, self.first, self.last, self.kind, error, self.cause)


class Ended(NamedTuple):
    """An acknowledgement and its outcome."""

    ack: QueuedAck
    error: KafkaError | None


class AcquiredPartition:
    """The records of one partition that this member has acquired from one leader in one share session.

    Attributes:
        owner: The consumer that owns it.
        partition: The partition.
        lost: Why records are no longer locked for this member; None while the session lasts.
        held: Delivered records that aren't acknowledged. They're compared by identity: the same offset can be acquired
            again.
        queued_at: The loop time when the oldest unsent acknowledgement was queued; None if there is none.
        retry_at: The earliest loop time for sending acknowledgements, after one was temporarily refused.
        attempts: The number of consecutive refusals.
    """

    def __init__(self, owner: object, partition: TopicPartition) -> None:
        self.owner = owner
        self.partition = partition
        self.lost: KafkaError | None = None
        self.held: dict[ShareRecord, None] = {}
        self.queued_at: float | None = None
        self.retry_at = 0.0
        self.attempts = 0
        # Dictionaries used as ordered sets.
        self._queued: dict[QueuedAck, None] = {}
        self._separate: deque[list[QueuedAck]] = deque()
        self._renewals: dict[ShareRecord, QueuedAck] = {}
        # The number of records held under each lock. It tells which locks to renew without checking every record.
        self._locks: dict[AcquisitionLock, int] = {}

    # Records

    def deliver(self, record: ShareRecord) -> None:
        """Note that this record was delivered to the application."""
        self.held[record] = None
        self._locks[record._lock] = self._locks.get(record._lock, 0) + 1

    def acknowledge(self, record: ShareRecord, kind: Acknowledgement, now: float) -> Ended | QueuedAck | None:
        """Acknowledge a delivered record for good. An acknowledgement that isn't sent yet can be replaced.

        Returns:
            The queued acknowledgement, the outcome if the lock is lost, or None if the record was acknowledged before.
        """
        if record._state is RecordState.QUEUED and record._ack is not None:
            record.acknowledgement = record._ack.kind = kind
            return record._ack
        if record._state is not RecordState.HELD:
            return None
        record.acknowledgement = kind
        self._drop(record)
        ack = QueuedAck(record.offset, record.offset, kind, record._lock, record)
        error = record._lock.failure(now)
        if error is not None:
            record._state = RecordState.DONE
            return Ended(ack, error)
        record._state = RecordState.QUEUED
        record._ack = ack
        self._queue(ack, now)
        return ack

    def acknowledge_undelivered(
        self, first: int, last: int, kind: Acknowledgement, lock: AcquisitionLock, cause: KafkaError | None, now: float
    ) -> QueuedAck | None:
        """Acknowledge offsets that can't be delivered, such as gaps and damage. Return None if their lock is already
        lost."""
        if lock.failure(now) is not None:
            return None
        ack = QueuedAck(first, last, kind, lock, cause=cause, reported=cause is not None)
        self._queue(ack, now)
        return ack

    def renew(self, record: ShareRecord, now: float, *, reported: bool) -> Ended | QueuedAck | None:
        """Renew the lock of a held record. Returns the same as :meth:`acknowledge`."""
        if record._state is not RecordState.HELD:
            return None
        ack = QueuedAck(record.offset, record.offset, Acknowledgement.RENEW, record._lock, record, reported=reported)
        error = record._lock.failure(now)
        if error is not None:
            return Ended(ack, error)
        ack = self._renewals.setdefault(record, ack)
        ack.reported = ack.reported or reported
        return ack

    def _drop(self, record: ShareRecord) -> None:
        if record not in self.held:
            return
        del self.held[record]
        count = self._locks[record._lock] - 1
        if count:
            self._locks[record._lock] = count
        else:
            del self._locks[record._lock]

    def _queue(self, ack: QueuedAck, now: float) -> None:
        self._queued[ack] = None
        if self.queued_at is None:
            self.queued_at = now

    # Requests

    @property
    def queued(self) -> int:
        """The number of acknowledgements waiting to be sent."""
        return len(self._queued)

    @property
    def unsent(self) -> int:
        """The number of acknowledgements waiting to be sent, including acknowledgements to send again."""
        return len(self._queued) + sum(map(len, self._separate))

    def take(self, now: float, most: int) -> tuple[list[QueuedAck], list[Ended]]:
        """Take up to ``most`` acknowledgements to send now: the oldest ones, in order of offsets. Also return the ones
        whose lock is lost."""
        if self.retry_at > now:
            return [], []
        if self._separate:
            taken = self._separate.popleft()
        else:
            taken = sorted(islice(self._queued, most), key=attrgetter("first"))
            for ack in taken:
                del self._queued[ack]
        if not self._queued and not self._separate:
            self.queued_at = None
        return self._check_locks(taken, now)

    def take_renewals(self, now: float, most: int) -> tuple[list[QueuedAck], list[Ended]]:
        """Take the renewals to send now, like :meth:`take`."""
        taken = sorted(islice(self._renewals.values(), most), key=attrgetter("first"))
        for ack in taken:
            assert ack.record is not None
            del self._renewals[ack.record]
        return self._check_locks(taken, now)

    def _check_locks(self, acks: list[QueuedAck], now: float) -> tuple[list[QueuedAck], list[Ended]]:
        good: list[QueuedAck] = []
        ended: list[Ended] = []
        for ack in acks:
            error = ack.lock.failure(now)
            if error is None:
                _set_state(ack, RecordState.SENT)
                good.append(ack)
            else:
                _set_state(ack, RecordState.DONE)
                ended.append(Ended(ack, error))
        return good, ended

    def due_renewals(self, now: float, most: float) -> list[ShareRecord]:
        """Return the held records whose lock is half over, and which were acquired at most ``most`` seconds ago."""
        due = {lock for lock in self._locks if lock.renew_at <= now < lock.deadline and now - lock.acquired_at < most}
        return [record for record in self.held if record._lock in due] if due else []

    def next_renewal(self, most: float) -> float | None:
        """Return the loop time when the next renewal is due, if any."""
        times = (lock.renew_at for lock in self._locks if lock.renew_at - lock.acquired_at < most)
        return min((at for at in times if at < math.inf), default=None)

    def holds_any(self, ranges: Sequence[tuple[int, int, int]], now: float) -> bool:
        """Return whether any record in acquired ranges (first offset, last offset, delivery count; ascending) is
        already locked, and is being processed or has an unsent acknowledgement.

        If so, the broker has released the records without this side noticing: another broker was briefly the leader.
        """

        def overlaps(first: int, last: int) -> bool:
            at = bisect_left(ranges, first, key=itemgetter(1))
            return at < len(ranges) and ranges[at][0] <= last

        acks = chain(self._queued, *self._separate)
        return any(overlaps(each.offset, each.offset) and each._lock.failure(now) is None for each in self.held) or any(
            overlaps(ack.first, ack.last) and ack.lock.failure(now) is None for ack in acks
        )

    def next_expiry(self) -> float | None:
        """Return the loop time when the next lock of held records expires, if any."""
        return min((lock.deadline for lock in self._locks), default=None)

    def forget_expired(self, now: float) -> int:
        """Forget held records whose lock has expired. Return their number."""
        expired = {lock for lock in self._locks if lock.deadline <= now}
        records = [record for record in self.held if record._lock in expired] if expired else []
        for record in records:
            self._drop(record)
        return len(records)

    # Responses

    def answered(self, acks: Sequence[QueuedAck], error: KafkaError | None) -> list[Ended]:
        """Note the outcome of acknowledgements."""
        for ack in acks:
            _set_state(ack, RecordState.DONE)
        self.attempts, self.retry_at = 0, 0.0
        return [Ended(ack, error) for ack in acks]

    def renewed(self, acks: Sequence[QueuedAck], granted_at: float, duration: float) -> list[Ended]:
        """Note renewed locks."""
        locks: dict[AcquisitionLock, AcquisitionLock] = {}
        for ack in acks:
            record = ack.record
            assert record is not None
            new = locks.setdefault(ack.lock, ack.lock.renewed(granted_at, duration))
            held = record in self.held
            self._drop(record)
            record._lock = new
            if held:
                self.deliver(record)
            elif record._ack is not None:
                # The record was acknowledged in the meantime. The lock of its acknowledgement lasts longer, too.
                record._ack.lock = new
        return [Ended(ack, None) for ack in acks]

    def not_renewed(self, acks: Sequence[QueuedAck], error: KafkaError, now: float) -> list[Ended]:
        """Note locks that weren't renewed. Try again after half of the remaining time, unless that's too short."""
        for lock in {ack.lock for ack in acks}:
            left = lock.deadline - now
            lock.renew_at = now + left / 2 if left > _LAST_TRY * (lock.deadline - lock.granted_at) else math.inf
        return [Ended(ack, error) for ack in acks]

    def retry(self, acks: Iterable[QueuedAck], at: float, now: float) -> None:
        """Queue acknowledgements again: the broker didn't apply them."""
        for ack in acks:
            _set_state(ack, RecordState.QUEUED)
            self._queue(ack, now)
        self.attempts += 1
        self.retry_at = at

    def separate(self, acks: Sequence[QueuedAck], now: float) -> None:
        """Send acknowledgements again, separately for each lock: the record of one of them isn't locked, but it isn't
        known which."""
        by_lock: dict[AcquisitionLock, list[QueuedAck]] = {}
        for ack in acks:
            by_lock.setdefault(ack.lock, []).append(ack)
        self._separate.extend(by_lock.values())
        self.queued_at = now if self.queued_at is None else self.queued_at

    def lose(self, error: KafkaError) -> list[Ended]:
        """Give up all records: the session or the leadership has ended, so they're no longer locked for this member."""
        if self.lost is not None:
            return []
        self.lost = error
        acks = [*self._queued, *self._renewals.values(), *(ack for group in self._separate for ack in group)]
        self._queued.clear()
        self._renewals.clear()
        self._separate.clear()
        self.held.clear()
        self._locks.clear()
        self.queued_at = None
        for ack in acks:
            _set_state(ack, RecordState.DONE)
        return [Ended(ack, error) for ack in acks]


def is_divisible(acks: Sequence[QueuedAck]) -> bool:
    """Return whether the acknowledgements use more than one lock."""
    return len({ack.lock for ack in acks}) > 1


def _set_state(ack: QueuedAck, state: RecordState) -> None:
    if ack.record is not None and ack.kind is not Acknowledgement.RENEW:
        ack.record._state = state
