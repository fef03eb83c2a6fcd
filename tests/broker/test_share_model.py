"""A share partition whose members, clock and leader do anything in any order."""

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
from aiokproto.broker.share.state import PartitionState, StateBatch
from aiokproto.errors import BrokerError

MEMBERS = ["m1", "m2", "m3"]
CONFIG = AcquisitionConfig(max_in_flight_records=20, max_delivery_count=4, lock_duration=30.0)
NOTHING = PartitionState(0, 3, 0, (), 0)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState


@dataclass(frozen=True)
class Fate:
    """What became of a record, as its consumers see it."""

    state: RecordState = AVAILABLE
    delivery_count: int = 0
    member: str = ""
    deadline: float = 0.0


class PersistedState:
    """What is kept of a share partition."""

    def __init__(self) -> None:
        self.start = 0
        self.fates: dict[int, tuple[int, int]] = {}

    def write(self, state: PartitionState) -> None:
        self.start = state.start_offset
        for batch in state.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.fates[offset] = (batch.delivery_state, batch.delivery_count)
        self.fates = {offset: fate for offset, fate in self.fates.items() if offset >= self.start}
        is_terminal = sum(state in (ACKNOWLEDGED, ARCHIVED) for state, _ in self.fates.values())
        assert state.delivery_complete_count >= is_terminal, "it may know of more that is done with than is kept"

    def read(self, leader_epoch: int) -> PartitionState:
        batches = tuple(StateBatch(offset, offset, *fate) for offset, fate in sorted(self.fates.items()))
        return PartitionState(self.start, NOTHING.state_epoch, leader_epoch, batches, -1)


class AnyOrder(RuleBasedStateMachine):
    """Each record has a fate, known here and, if all is well, by the share partition."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.log: list[FetchedBatch] = []
        self.log_start = self.log_end = 0
        self.kept = PersistedState()
        self.share = SharePartition(NOTHING, 0)
        self.fates: dict[int, Fate] = {}
        self.written = True

    def fate(self, offset: int) -> Fate:
        return self.fates.get(offset, Fate())

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
            # It was to be had, and is not in the log any more.
            if self.fate(offset).state is AVAILABLE and offset < self.share.end_offset:
                self.fates[offset] = replace(self.fate(offset), state=ARCHIVED)
        told = {offset: each.delivery_count for each in acquired for offset in range(each.first, each.last + 1)}
        assert len(told) == sum(each.last - each.first + 1 for each in acquired)
        for offset, delivery_count in told.items():
            fate = self.fate(offset)
            assert fate.state is AVAILABLE, "nobody else has it, and it is not done with"
            assert delivery_count == fate.delivery_count + 1 <= CONFIG.max_delivery_count
            self.fates[offset] = Fate(ACQUIRED, delivery_count, member, self.now + CONFIG.lock_duration)
        if record_limit:
            assert len(told) <= most
        if any(CONFIG.is_last_delivery(delivery_count - 1) for delivery_count in told.values()):
            assert len(told) == 1, "for the last time, alone"
        for run in self.share.runs:
            for offset in range(run.first, run.last + 1):
                if run.state is ARCHIVED and offset not in told and self.in_aborted(offset):
                    self.fates[offset] = replace(self.fate(offset), state=ARCHIVED, member="")
        for offset in range(before, self.share.start_offset):
            if self.in_aborted(offset):
                self.fates[offset] = replace(self.fate(offset), state=ARCHIVED, member="")
        assert not any(self.in_aborted(offset) for offset in told)
        assert acquired or self.share.next_offset > before, "what was read leads on"

    def in_aborted(self, offset: int) -> bool:
        return any(batch.aborted and batch.first <= offset <= batch.last for batch in self.log)

    @rule(
        member=st.sampled_from(MEMBERS),
        at=st.integers(0, 12),
        size=st.integers(1, 6),
        words=st.lists(st.sampled_from([GAP, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW]), min_size=6, max_size=6),
        one_word=st.booleans(),
    )
    @precondition(lambda self: self.share.runs)
    def acknowledge(self, member: str, at: int, size: int, words: list[int], one_word: bool) -> None:
        first = self.share.start_offset + at
        last = first + size - 1
        said = Acknowledgement(first, last, words[:1] if one_word else words[:size])
        offsets = [offset for offset in range(first, last + 1) if self.in_flight(offset)]
        theirs = all((self.fate(offset).state, self.fate(offset).member) == (ACQUIRED, member) for offset in offsets)
        if not offsets or not theirs or last >= self.share.end_offset:
            with pytest.raises(BrokerError):
                self.share.acknowledge(member, [said], CONFIG, self.now)
            return
        if self.keep(self.share.acknowledge(member, [said], CONFIG, self.now)):
            for offset in offsets:
                self.said(offset, said.types[0] if one_word else said.types[offset - first])

    @rule(member=st.sampled_from(MEMBERS), ack_type=st.sampled_from([ACCEPT, RELEASE, REJECT]))
    def acknowledge_all(self, member: str, ack_type: int) -> None:
        mine = [run for run in self.share.runs if run.member_id == member]
        said = [Acknowledgement(run.first, run.last, [ack_type]) for run in mine]
        if self.keep(self.share.acknowledge(member, said, CONFIG, self.now)):
            for run in mine:
                for offset in range(run.first, run.last + 1):
                    self.said(offset, ack_type)

    @rule(member=st.sampled_from(MEMBERS), ack_type=st.sampled_from([ACCEPT, RELEASE]), move=st.booleans())
    @precondition(lambda self: self.log)
    def acknowledge_the_newest(self, member: str, ack_type: int, move: bool) -> None:
        """Of what was there before, nothing is kept then."""
        self.acquire(member, 12, 1, False, 4)
        mine = [run for run in self.share.runs if run.member_id == member][-1:]
        said = [Acknowledgement(run.first, run.last, [ack_type]) for run in mine]
        if self.keep(self.share.acknowledge(member, said, CONFIG, self.now)):
            for run in mine:
                for offset in range(run.first, run.last + 1):
                    self.said(offset, ack_type)
        if move:
            self.lead_anew()

    @rule(member=st.sampled_from(MEMBERS), times=st.integers(1, 5))
    def fail(self, member: str, times: int) -> None:
        for _ in range(times):
            self.acquire(member, 12, 8, False, 4)
            self.go(member)

    @rule(member=st.sampled_from(MEMBERS))
    def go(self, member: str) -> None:
        if self.keep(self.share.release(member, CONFIG)):
            for offset, fate in self.fates.items():
                if fate.state is ACQUIRED and fate.member == member:
                    self.said(offset, RELEASE)

    @rule(seconds=st.sampled_from([1.0, 20.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        transition = self.share.expire(self.now, CONFIG)
        # Kept or not: the lock has ended.
        if not self.keep(transition):
            self.share.apply(transition)
        for offset, fate in self.fates.items():
            if fate.state is ACQUIRED and fate.deadline <= self.now:
                self.said(offset, RELEASE)

    def said(self, offset: int, ack_type: int) -> None:
        fate = self.fates[offset]
        assert fate.state is ACQUIRED
        if ack_type == RENEW:
            self.fates[offset] = replace(fate, deadline=self.now + CONFIG.lock_duration)
            return
        spent = ARCHIVED if fate.delivery_count >= CONFIG.max_delivery_count else AVAILABLE
        state = {ACCEPT: ACKNOWLEDGED, RELEASE: spent}.get(ack_type, ARCHIVED)
        self.fates[offset] = Fate(state, fate.delivery_count)

    # ---- who keeps it

    def keep(self, transition: StateTransition) -> bool:
        if not self.written:
            return False
        self.kept.write(self.share.persisted_state(transition))
        self.share.apply(transition)
        return True

    @rule(able=st.booleans())
    def change_what_can_be_kept(self, able: bool) -> None:
        self.written = able

    @rule()
    def lead_anew(self) -> None:
        """Another leader knows what was kept, and nothing else."""
        kept = self.kept.read(self.share.leader_epoch + 1)
        self.share = SharePartition(kept, kept.start_offset)
        self.share.advance_log_start(self.log_start)
        before, self.fates = self.fates, {}
        for offset in range(self.share.end_offset):
            state, delivery_count = self.kept.fates.get(offset, (AVAILABLE, 0))
            if offset < self.kept.start:
                self.fates[offset] = before.get(offset, Fate(ARCHIVED))
            else:
                self.fates[offset] = Fate(RecordState(state), delivery_count)
            if self.fates[offset].state is ACKNOWLEDGED:
                assert before[offset].state is ACKNOWLEDGED

    @rule()
    def settle(self) -> None:
        """If everybody goes but one, who takes what there is, then everything is done with: nothing was lost."""
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
                assert self.fate(offset).state.is_terminal

    # ---- always

    def in_flight(self, offset: int) -> bool:
        return any(run.first <= offset <= run.last for run in self.share.runs)

    @invariant()
    def the_partition_knows_each_record_s_fate(self) -> None:
        for run in self.share.runs:
            for offset in range(run.first, run.last + 1):
                fate = self.fate(offset)
                assert (run.state, run.member_id) == (fate.state, fate.member), offset
                assert run.state.is_terminal or run.delivery_count == fate.delivery_count, offset
                assert run.state is not ACQUIRED or run.deadline == fate.deadline

    @invariant()
    def what_is_before_the_start_is_done_with(self) -> None:
        for offset in range(self.log_start, self.share.start_offset):
            in_log = any(batch.first <= offset <= batch.last for batch in self.log)
            assert not in_log or self.fate(offset).state.is_terminal

    @invariant()
    def nobody_was_given_what_is_beyond_the_end(self) -> None:
        assert not any(offset >= self.share.end_offset for offset in self.fates)

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
