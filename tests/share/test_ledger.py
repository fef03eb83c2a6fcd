"""The ledger of acquired records: by tables, and against a model of the broker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AcquisitionLockError, BrokerConnectionError, error_for
from aiokproto.share.acknowledgement import Acknowledgement, AcknowledgeOutcome, joined
from aiokproto.share.ledger import AcquiredPartition, AcquisitionLock, Ended, QueuedAck, ShareRecord, is_divisible
from aiokproto.share.requests import ack_batches
from aiokproto.types import TimestampType, TopicPartition

ACCEPT, RELEASE, REJECT, RENEW = (Acknowledgement(number) for number in range(1, 5))
WHERE = TopicPartition("t", 0)
DURATION = 10.0


def partition() -> AcquiredPartition:
    return AcquiredPartition(None, WHERE)


def lock(acquired: AcquiredPartition, at: float = 0.0) -> AcquisitionLock:
    return AcquisitionLock(acquired, at, at, DURATION)


def record(lock: AcquisitionLock, offset: int, count: int = 1) -> ShareRecord:
    made = ShareRecord("t", 0, offset, 0, None, b"", (), TimestampType.CREATE_TIME, -1, count, lock)
    lock.acquired.deliver(made)
    return made


def offsets(acks: list[QueuedAck]) -> list[int]:
    return [ack.first for ack in acks]


def test_acknowledgements_are_taken_in_the_order_of_offsets_once() -> None:
    acquired = partition()
    held = lock(acquired)
    records = [record(held, offset) for offset in (0, 1, 2)]
    acquired.acknowledge(records[2], ACCEPT, 1.0)
    acquired.acknowledge(records[0], RELEASE, 2.0)
    assert acquired.queued_at == 1.0
    acks, ended = acquired.take(3.0, 100)
    assert (offsets(acks), ended) == ([0, 2], [])
    assert acquired.queued_at is None
    assert list(ack_batches(acks)) == [(0, 0, [2]), (2, 2, [1])]
    assert acquired.take(3.0, 100) == ([], [])
    assert list(acquired.held) == [records[1]]


def test_the_oldest_acknowledgements_are_taken_first() -> None:
    acquired = partition()
    held = lock(acquired)
    records = [record(held, offset) for offset in (0, 1, 2)]
    for each in reversed(records):
        acquired.acknowledge(each, ACCEPT, 0.0)
        acquired.renew(each, 0.0, reported=True)
    assert offsets(acquired.take(0.0, 2)[0]) == [1, 2]
    assert acquired.queued_at == 0.0
    assert offsets(acquired.take(0.0, 2)[0]) == [0]
    assert acquired.queued_at is None


def test_an_acknowledgement_is_replaced_while_it_is_queued_and_not_later() -> None:
    acquired = partition()
    one = record(lock(acquired), 0)
    first = acquired.acknowledge(one, ACCEPT, 0.0)
    assert acquired.acknowledge(one, REJECT, 0.0) is first
    acks, _ = acquired.take(0.0, 100)
    assert [ack.kind for ack in acks] == [REJECT]
    assert acquired.acknowledge(one, ACCEPT, 0.0) is None
    acquired.answered(acks, None)
    assert acquired.acknowledge(one, ACCEPT, 0.0) is None


def test_an_expired_lock_ends_an_acknowledgement_before_and_after_it_is_queued() -> None:
    acquired = partition()
    held = lock(acquired)
    late, in_time = record(held, 0), record(held, 1)
    acquired.acknowledge(in_time, ACCEPT, 9.9)
    ended = acquired.acknowledge(late, ACCEPT, 10.0)
    assert isinstance(ended, Ended)
    assert isinstance(ended.error, AcquisitionLockError)
    acks, lost = acquired.take(10.0, 100)
    assert acks == []
    assert [(each.ack.first, type(each.error)) for each in lost] == [(1, AcquisitionLockError)]


def test_the_same_offset_can_be_acquired_again_while_its_old_record_is_held() -> None:
    acquired = partition()
    old = record(lock(acquired), 5)
    new = record(lock(acquired, at=20.0), 5, 2)
    assert isinstance(acquired.acknowledge(old, ACCEPT, 21.0), Ended)
    acquired.acknowledge(new, RELEASE, 21.0)
    acks, ended = acquired.take(22.0, 100)
    assert ([(ack.first, ack.kind) for ack in acks], ended) == ([(5, RELEASE)], [])
    assert not acquired.held


def test_refused_acknowledgements_are_sent_again_for_each_lock() -> None:
    acquired = partition()
    one, other = lock(acquired), lock(acquired, at=1.0)
    records = [record(one, 0), record(other, 1), record(one, 2)]
    for each in records:
        acquired.acknowledge(each, ACCEPT, 2.0)
    acks, _ = acquired.take(2.0, 100)
    assert is_divisible(acks)
    acquired.separate(acks, 2.0)
    parts = [acquired.take(3.0, 100)[0] for _ in range(2)]
    assert [offsets(part) for part in parts] == [[0, 2], [1]]
    assert not any(is_divisible(part) for part in parts)
    assert acquired.take(3.0, 100) == ([], [])
    assert acquired.queued_at is None


def test_acknowledgements_that_were_not_applied_wait_for_the_backoff() -> None:
    acquired = partition()
    acquired.acknowledge(record(lock(acquired), 0), ACCEPT, 0.0)
    acks, _ = acquired.take(0.0, 100)
    acquired.retry(acks, at=1.0, now=0.5)
    assert acquired.take(0.9, 100) == ([], [])
    assert offsets(acquired.take(1.0, 100)[0]) == [0]


def test_everything_ends_when_the_session_is_lost() -> None:
    acquired = partition()
    held = lock(acquired)
    records = [record(held, offset) for offset in range(3)]
    acquired.acknowledge(records[0], ACCEPT, 0.0)
    acquired.renew(records[1], 0.0, reported=True)
    error = BrokerConnectionError("gone")
    assert [(each.ack.first, each.error) for each in acquired.lose(error)] == [(0, error), (1, error)]
    assert acquired.lose(BrokerConnectionError("again")) == []
    ended = acquired.acknowledge(records[2], ACCEPT, 0.0)
    assert isinstance(ended, Ended)
    assert ended.error is error
    assert not acquired.held


def test_renewed_records_have_a_lock_of_their_own() -> None:
    acquired = partition()
    held = lock(acquired)
    records = [record(held, offset) for offset in range(3)]
    acquired.renew(records[0], 1.0, reported=False)
    acquired.renew(records[1], 1.0, reported=True)
    acks, _ = acquired.take_renewals(1.0, 100)
    acquired.acknowledge(records[1], ACCEPT, 2.0)
    ended = acquired.renewed(acks, granted_at=1.0, duration=DURATION)
    assert [(each.ack.reported, each.error) for each in ended] == [(False, None), (True, None)]
    assert [each.lock_deadline for each in records] == [11.0, 11.0, 10.0]
    # The acknowledgement that was queued in the meantime relies on the renewed lock.
    acks, lost = acquired.take(10.5, 100)
    assert (offsets(acks), lost) == ([1], [])
    assert acquired.forget_expired(10.5) == 1
    assert list(acquired.held) == [records[0]]


@pytest.mark.parametrize(("now", "most", "due"), [(4.9, 100.0, 0), (5.0, 100.0, 2), (5.0, 5.0, 0), (10.0, 100.0, 0)])
def test_renewals_are_due_when_half_of_the_lock_is_over(now: float, most: float, due: int) -> None:
    acquired = partition()
    held = lock(acquired)
    for offset in range(2):
        record(held, offset)
    assert len(acquired.due_renewals(now, most)) == due
    assert acquired.next_renewal(100.0) == 5.0
    assert acquired.next_renewal(5.0) is None


def test_a_refused_renewal_is_tried_again_ever_sooner_and_then_not_at_all() -> None:
    acquired = partition()
    held = lock(acquired)
    one = record(held, 0)
    tried = []
    now = held.renew_at
    while (due := acquired.next_renewal(100.0)) is not None:
        now = due
        tried.append(now)
        acquired.renew(one, now, reported=False)
        acks, _ = acquired.take_renewals(now, 100)
        acquired.not_renewed(acks, error_for(ErrorCode.INVALID_RECORD_STATE), now)
    assert tried == [5.0, 7.5, 8.75, 9.375]


def test_outcomes_of_adjacent_offsets_are_joined() -> None:
    error = BrokerConnectionError("gone")
    of = [AcknowledgeOutcome("t", 0, offset, offset, ACCEPT, error if offset == 3 else None) for offset in (4, 1, 2, 3)]
    assert joined(of) == [
        AcknowledgeOutcome("t", 0, 1, 2, ACCEPT),
        AcknowledgeOutcome("t", 0, 3, 3, ACCEPT, error),
        AcknowledgeOutcome("t", 0, 4, 4, ACCEPT),
    ]
    assert str(joined(of)[1]) == "t-0 at offset 3: accept: gone"


class LedgerMachine(RuleBasedStateMachine):
    """Any sequence of events: every acknowledgement gets one outcome, and none is sent under a lost lock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.acquired = partition()
        self.records: list[ShareRecord] = []
        self.open: set[QueuedAck] = set()
        self.sent: list[QueuedAck] = []
        self.renewing: list[QueuedAck] = []
        self.offset = 0

    def _queued(self, result: Any) -> None:
        if isinstance(result, QueuedAck):
            self.open.add(result)

    def _ended(self, ended: list[Ended]) -> None:
        for each in ended:
            assert each.ack in self.open, "one outcome each"
            self.open.discard(each.ack)

    @rule(count=st.integers(1, 3))
    def acquire(self, count: int) -> None:
        if self.acquired.lost is not None:
            self.acquired = partition()
        held = lock(self.acquired, self.now)
        for _ in range(count):
            self.records.append(record(held, self.offset))
            self.offset += 1

    @rule(at=st.integers(0, 20), kind=st.sampled_from([ACCEPT, RELEASE, REJECT, RENEW]))
    def acknowledge(self, at: int, kind: Acknowledgement) -> None:
        if at < len(self.records):
            one = self.records[at]
            acquired = one._lock.acquired
            if kind is RENEW:
                self._queued(acquired.renew(one, self.now, reported=True))
            else:
                self._queued(acquired.acknowledge(one, kind, self.now))

    @rule(seconds=st.floats(0.1, 6.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: not self.sent and not self.renewing)
    @rule()
    def send(self) -> None:
        self.sent, ended = self.acquired.take(self.now, 100)
        self._ended(ended)
        assert all(ack.lock.failure(self.now) is None for ack in self.sent)
        assert offsets(self.sent) == sorted(set(offsets(self.sent)))

    @precondition(lambda self: not self.sent and not self.renewing)
    @rule()
    def send_renewals(self) -> None:
        self.renewing, ended = self.acquired.take_renewals(self.now, 100)
        self._ended(ended)

    @rule(what=st.sampled_from(["applied", "refused", "retry", "separate", "lost"]))
    def answer(self, what: str) -> None:
        sent, self.sent = self.sent, []
        renewing, self.renewing = self.renewing, []
        error = error_for(ErrorCode.INVALID_RECORD_STATE)
        if what == "lost":
            self._ended(self.acquired.answered([*sent, *renewing], error))
            self._ended(self.acquired.lose(error))
        elif renewing:
            granted = what == "applied"
            self._ended(
                self.acquired.renewed(renewing, self.now, DURATION)
                if granted
                else self.acquired.not_renewed(renewing, error, self.now)
            )
        elif what == "retry":
            self.acquired.retry(sent, self.now + 0.5, self.now)
        elif what == "separate" and is_divisible(sent):
            self.acquired.separate(sent, self.now)
        else:
            self._ended(self.acquired.answered(sent, None if what == "applied" else error))

    @rule()
    def forget(self) -> None:
        self.acquired.forget_expired(self.now)
        assert all(one._lock.deadline > self.now for one in self.acquired.held)

    @invariant()
    def locks_are_counted(self) -> None:
        assert sum(self.acquired._locks.values()) == len(self.acquired.held)

    def teardown(self) -> None:
        self._ended(self.acquired.answered([*self.sent, *self.renewing], None))
        self._ended(self.acquired.lose(BrokerConnectionError("the end")))
        assert not self.open, "each has an outcome in the end"


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
