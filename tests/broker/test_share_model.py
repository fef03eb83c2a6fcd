"""A model test of share partitions: members, clock and leader do anything in any order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.broker.share.acquisition import AcquireRequest, AcquisitionConfig, FetchedBatch
from aiokproto.broker.share.in_flight import RecordState
from aiokproto.broker.share.partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    SharePartition,
    StateTransition,
)
from aiokproto.broker.share.records import ShareGroupOffset, StateBatch
from aiokproto.errors import BrokerError

MEMBERS = ["m1", "m2", "m3"]
CONFIG = AcquisitionConfig(max_in_flight_records=20, max_delivery_count=4, lock_duration=30.0)
NOTHING = ShareGroupOffset(0, 3, 0, (), 0)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState


@dataclass(frozen=True)
class Record:
    """The state of a record from its consumers' point of view."""

    state: RecordState = AVAILABLE
    delivery_count: int = 0
    member: str = ""
    deadline: float = 0.0


class PersistedState:
    """The persisted state of a share partition."""

    def __init__(self) -> None:
        self.start = 0
        self.expected: dict[int, tuple[int, int]] = {}

    def write(self, state: ShareGroupOffset) -> None:
        self.start = state.start_offset
        for batch in state.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.expected[offset] = (batch.delivery_state, batch.delivery_count)
        self.expected = {offset: record for offset, record in self.expected.items() if offset >= self.start}
        is_terminal = sum(state in (ACKNOWLEDGED, ARCHIVED) for state, _ in self.expected.values())
        assert state.delivery_complete_count >= is_terminal, "it can know of more terminal records than are persisted"

    def read(self, leader_epoch: int) -> ShareGroupOffset:
        batches = tuple(StateBatch(offset, offset, *record) for offset, record in sorted(self.expected.items()))
        return ShareGroupOffset(self.start, NOTHING.state_epoch, leader_epoch, batches, -1)


class AnyOrder(RuleBasedStateMachine):
    """The model has the state of each record; the share partition must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.log: list[FetchedBatch] = []
        self.log_start = self.log_end = 0
        self.persisted = PersistedState()
        self.share = SharePartition(NOTHING, 0)
        self.expected: dict[int, Record] = {}
        self.written = True

    def record(self, offset: int) -> Record:
        return self.expected.get(offset, Record())

    # ---- the log

    @rule(size=st.integers(1, 6), aborted=st.sampled_from([False, False, False, True]), gap=st.integers(0, 2))
    def produce(self, size: int, aborted: bool, gap: int) -> None:
        first = self.log_end + gap
        self.log.append(FetchedBatch(first, first + size - 1, aborted))
        self.log_end = first + size

    @rule(data=st.data())
    @precondition(lambda self: len(self.log) > 1)
    def compact(self, data: st.DataObject) -> None:
        self.log.remove(data.draw(st.sampled_from(self.log[:-1])))

    @rule(data=st.data())
    @precondition(lambda self: self.log_end)
    def delete_before(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, self.log_end))
        self.log = [batch for batch in self.log if batch.last >= self.log_start]
        self.share.advance_log_start(self.log_start)

    # ---- members

    @rule(
        member=st.sampled_from(MEMBERS),
        most=st.integers(1, 12),
        batch_size=st.integers(1, 8),
        record_limit=st.booleans(),
        batches=st.integers(1, 4),
    )
    def acquire(self, member: str, most: int, batch_size: int, record_limit: bool, batches: int) -> None:
        read = [batch for batch in self.log if batch.last >= self.share.next_offset][:batches]
        if not read or self.share.is_full(CONFIG):
            return
        before = self.share.next_offset
        acquire_request = AcquireRequest(member, most, batch_size, record_limit)
        acquired = self.share.acquire(acquire_request, read, CONFIG, self.now)
        for offset in range(before, read[0].first):
            # The record was available, and is no longer in the log.
            if self.record(offset).state is AVAILABLE and offset < self.share.end_offset:
                self.expected[offset] = replace(self.record(offset), state=ARCHIVED)
        counts = {offset: each.delivery_count for each in acquired for offset in range(each.first, each.last + 1)}
        assert len(counts) == sum(each.last - each.first + 1 for each in acquired)
        for offset, delivery_count in counts.items():
            record = self.record(offset)
            assert record.state is AVAILABLE, "no other member has acquired it, and it is not terminal"
            assert delivery_count == record.delivery_count + 1 <= CONFIG.max_delivery_count
            self.expected[offset] = Record(ACQUIRED, delivery_count, member, self.now + CONFIG.lock_duration)
        if record_limit:
            assert len(counts) <= most
        if any(CONFIG.is_last_delivery(delivery_count - 1) for delivery_count in counts.values()):
            assert len(counts) == 1, "the last delivery is of a single record"
        for run in self.share.runs:
            for offset in range(run.first, run.last + 1):
                if run.state is ARCHIVED and offset not in counts and self.in_aborted(offset):
                    self.expected[offset] = replace(self.record(offset), state=ARCHIVED, member="")
        for offset in range(before, self.share.start_offset):
            if self.in_aborted(offset):
                self.expected[offset] = replace(self.record(offset), state=ARCHIVED, member="")
        assert not any(self.in_aborted(offset) for offset in counts)
        assert acquired or self.share.next_offset > before, "reading makes progress"

    def in_aborted(self, offset: int) -> bool:
        return any(batch.aborted and batch.first <= offset <= batch.last for batch in self.log)

    @rule(
        member=st.sampled_from(MEMBERS),
        at=st.integers(0, 12),
        size=st.integers(1, 6),
        types=st.lists(st.sampled_from([GAP, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW]), min_size=6, max_size=6),
        one_type=st.booleans(),
    )
    @precondition(lambda self: self.share.runs)
    def acknowledge(self, member: str, at: int, size: int, types: list[int], one_type: bool) -> None:
        first = self.share.start_offset + at
        last = first + size - 1
        acknowledgement = Acknowledgement(first, last, types[:1] if one_type else types[:size])
        offsets = [offset for offset in range(first, last + 1) if self.in_flight(offset)]
        theirs = all(
            (self.record(offset).state, self.record(offset).member) == (ACQUIRED, member) for offset in offsets
        )
        if not offsets or not theirs or last >= self.share.end_offset:
            with pytest.raises(BrokerError):
                self.share.acknowledge(member, [acknowledgement], CONFIG, self.now)
            return
        if self.persist(self.share.acknowledge(member, [acknowledgement], CONFIG, self.now)):
            for offset in offsets:
                self.mark_acknowledged(
                    offset, acknowledgement.types[0] if one_type else acknowledgement.types[offset - first]
                )

    @rule(member=st.sampled_from(MEMBERS), ack_type=st.sampled_from([ACCEPT, RELEASE, REJECT]))
    def acknowledge_all(self, member: str, ack_type: int) -> None:
        mine = [run for run in self.share.runs if run.member_id == member]
        acknowledgement = [Acknowledgement(run.first, run.last, [ack_type]) for run in mine]
        if self.persist(self.share.acknowledge(member, acknowledgement, CONFIG, self.now)):
            for run in mine:
                for offset in range(run.first, run.last + 1):
                    self.mark_acknowledged(offset, ack_type)

    @rule(member=st.sampled_from(MEMBERS), ack_type=st.sampled_from([ACCEPT, RELEASE]), move=st.booleans())
    @precondition(lambda self: self.log)
    def acknowledge_the_newest(self, member: str, ack_type: int, move: bool) -> None:
        """Acquired records are not persisted."""
        self.acquire(member, 12, 1, False, 4)
        mine = [run for run in self.share.runs if run.member_id == member][-1:]
        acknowledgement = [Acknowledgement(run.first, run.last, [ack_type]) for run in mine]
        if self.persist(self.share.acknowledge(member, acknowledgement, CONFIG, self.now)):
            for run in mine:
                for offset in range(run.first, run.last + 1):
                    self.mark_acknowledged(offset, ack_type)
        if move:
            self.lead_again()

    @rule(member=st.sampled_from(MEMBERS), times=st.integers(1, 5))
    def fail(self, member: str, times: int) -> None:
        for _ in range(times):
            self.acquire(member, 12, 8, False, 4)
            self.go(member)

    @rule(member=st.sampled_from(MEMBERS))
    def go(self, member: str) -> None:
        if self.persist(self.share.release(member, CONFIG)):
            for offset, record in self.expected.items():
                if record.state is ACQUIRED and record.member == member:
                    self.mark_acknowledged(offset, RELEASE)

    @rule(seconds=st.sampled_from([1.0, 20.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        transition = self.share.expire(self.now, CONFIG)
        # The lock has expired, whether or not that is persisted.
        if not self.persist(transition):
            self.share.apply(transition)
        for offset, record in self.expected.items():
            if record.state is ACQUIRED and record.deadline <= self.now:
                self.mark_acknowledged(offset, RELEASE)

    def mark_acknowledged(self, offset: int, ack_type: int) -> None:
        record = self.expected[offset]
        assert record.state is ACQUIRED
        if ack_type == RENEW:
            self.expected[offset] = replace(record, deadline=self.now + CONFIG.lock_duration)
            return
        spent = ARCHIVED if record.delivery_count >= CONFIG.max_delivery_count else AVAILABLE
        state = {ACCEPT: ACKNOWLEDGED, RELEASE: spent}.get(ack_type, ARCHIVED)
        self.expected[offset] = Record(state, record.delivery_count)

    # ---- persistence

    def persist(self, transition: StateTransition) -> bool:
        if not self.written:
            return False
        self.persisted.write(self.share.persisted_state(transition))
        self.share.apply(transition)
        return True

    @rule(able=st.booleans())
    def change_what_can_be_kept(self, able: bool) -> None:
        self.written = able

    @rule()
    def lead_again(self) -> None:
        """A new leader knows only the persisted state."""
        persisted = self.persisted.read(self.share.leader_epoch + 1)
        self.share = SharePartition(persisted, persisted.start_offset)
        self.share.advance_log_start(self.log_start)
        before, self.expected = self.expected, {}
        for offset in range(self.share.end_offset):
            state, delivery_count = self.persisted.expected.get(offset, (AVAILABLE, 0))
            if offset < self.persisted.start:
                self.expected[offset] = before.get(offset, Record(ARCHIVED))
            else:
                self.expected[offset] = Record(RecordState(state), delivery_count)
            if self.expected[offset].state is ACKNOWLEDGED:
                assert before[offset].state is ACKNOWLEDGED

    @rule()
    def settle(self) -> None:
        """When one member accepts all available records after the others have left, all are terminal, and none was
        lost."""
        self.written = True
        for member in MEMBERS:
            self.go(member)
        for _ in range(200):
            if self.share.next_offset >= self.log_end or not self.log:
                break
            self.acquire("m1", 12, 8, False, 4)
            self.acknowledge_all("m1", ACCEPT)
        left = [batch for batch in self.log if batch.last >= self.share.next_offset]
        assert not left, "all that is in the log was delivered"
        for batch in self.log:
            for offset in range(max(batch.first, self.log_start), batch.last + 1):
                assert self.record(offset).state.is_terminal

    # ---- invariants

    def in_flight(self, offset: int) -> bool:
        return any(run.first <= offset <= run.last for run in self.share.runs)

    @invariant()
    def the_partition_knows_each_record_s_fate(self) -> None:
        for run in self.share.runs:
            for offset in range(run.first, run.last + 1):
                record = self.record(offset)
                assert (run.state, run.member_id) == (record.state, record.member), offset
                assert run.state.is_terminal or run.delivery_count == record.delivery_count, offset
                assert run.state is not ACQUIRED or run.deadline == record.deadline

    @invariant()
    def what_is_before_the_start_is_done_with(self) -> None:
        for offset in range(self.log_start, self.share.start_offset):
            in_log = any(batch.first <= offset <= batch.last for batch in self.log)
            assert not in_log or self.record(offset).state.is_terminal

    @invariant()
    def nobody_was_given_what_is_beyond_the_end(self) -> None:
        assert not any(offset >= self.share.end_offset for offset in self.expected)

    @invariant()
    def runs_are_in_order(self) -> None:
        runs, share = self.share.runs, self.share
        assert all(run.first <= run.last for run in runs)
        assert all(earlier.last < later.first for earlier, later in pairwise(runs))
        assert not runs or (share.start_offset, share.end_offset) == (runs[0].first, runs[-1].last + 1)
        assert runs or share.start_offset == share.end_offset
        assert not runs or not runs[0].state.is_terminal
        largest = max((batch.last - batch.first + 1 for batch in self.log), default=6)
        assert share.end_offset - share.start_offset <= CONFIG.max_in_flight_records + largest + 2 * len(runs) + 6


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
