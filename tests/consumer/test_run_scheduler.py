"""What may be handled next and what may be committed, by a model: the scheduler of `Consumer.run`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.running.scheduler import Backlog, Limits, Scheduler, Work, size_of
from aiokproto.types import Record, TopicPartition

PARTITIONS = 3
LIMITS = Limits(records=12, size=1 << 20, running=3)


def record(partition: int, offset: int, key: bytes | None = None, value: bytes = b"") -> Record:
    return Record("t", partition, offset, 0, key, value)


class Running(RuleBasedStateMachine):
    """Records arrive with gaps, calls start, end, fail and are repeated, partitions are paused, sought and revoked."""

    order = "key"
    limits = LIMITS

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(self.order, self.limits)
        self.next_offset: dict[int, int] = defaultdict(int)
        self.backlogs: dict[int, Backlog] = {}
        self.running: list[Work] = []
        self.postponed: list[Work] = []
        # Delivered offsets that aren't done, started ones in their order, and all keys, for each backlog.
        self.unfinished: dict[Backlog, set[int]] = defaultdict(set)
        self.handled: dict[tuple[Backlog, object], list[int]] = defaultdict(list)
        self.keys: dict[tuple[int, int], object] = {}

    def lane(self, at: tuple[int, int]) -> object:
        return at[0] if self.order == "partition" else self.keys[at] if self.order == "key" else None

    @rule(partition=st.integers(0, PARTITIONS - 1), gaps=st.lists(st.integers(1, 3), max_size=8), data=st.data())
    def put(self, partition: int, gaps: list[int], data: st.DataObject) -> None:
        backlog = self.backlogs.get(partition)
        if backlog is None:
            backlog = self.backlogs[partition] = Backlog(TopicPartition("t", partition), object())
        room = self.scheduler.room(backlog, PARTITIONS)
        assert room <= self.scheduler.share(PARTITIONS)
        records = []
        for gap in gaps[:room]:
            offset = self.next_offset[partition] + gap
            self.next_offset[partition] = offset
            key = data.draw(st.sampled_from([None, b"a", b"b", b"c"]))
            self.keys[partition, offset] = key
            records.append(record(partition, offset, key))
            self.unfinished[backlog].add(offset)
        self.scheduler.put(backlog, records)

    @rule()
    def start(self) -> None:
        work = self.scheduler.start(1.0)
        if work is None:
            return
        assert not work.backlog.blocked, "what is paused does not start"
        assert len(self.running) < self.limits.running
        partition = work.backlog.partition.partition
        lane = self.lane((partition, work.offset))
        if lane is not None:
            for other in (*self.running, *self.postponed):
                same = other.backlog is work.backlog and self.lane((partition, other.offset)) == lane
                assert not same, "one of a key at a time, and the one that is repeated first"
            done = self.handled[work.backlog, lane]
            assert not done or done[-1] <= work.offset, "the order of a key"
            earlier = {
                offset
                for offset in self.unfinished[work.backlog]
                if offset < work.offset and self.lane((partition, offset)) == lane
            }
            assert not earlier, "no record of a key is passed over"
            done.append(work.offset)
        self.running.append(work)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        work = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.unfinished[work.backlog].discard(work.offset)
        self.scheduler.finish(work)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        """A call follows the last one of its partition at once: it must be the one that start() would have returned."""
        work = data.draw(st.sampled_from(self.running))
        before = work.offset
        if self.scheduler.follow(work):
            assert not work.backlog.blocked
            self.unfinished[work.backlog].discard(before)
            assert work.offset == min(self.unfinished[work.backlog])
            self.handled[work.backlog, work.backlog.partition.partition].append(work.offset)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        work = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.scheduler.postpone(work)
        if not work.backlog.dropped:
            self.postponed.append(work)

    @precondition(lambda self: self.postponed)
    @rule(data=st.data())
    def due(self, data: st.DataObject) -> None:
        self.scheduler.due(self.postponed.pop(data.draw(st.integers(0, len(self.postponed) - 1))))

    @precondition(lambda self: self.backlogs)
    @rule(data=st.data(), blocked=st.booleans())
    def block(self, data: st.DataObject, blocked: bool) -> None:
        self.scheduler.block(self.backlogs[data.draw(st.sampled_from(sorted(self.backlogs)))], blocked)

    @precondition(lambda self: self.backlogs)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        backlog = self.backlogs.pop(data.draw(st.sampled_from(sorted(self.backlogs))))
        self.scheduler.drop(backlog)
        self.postponed = [work for work in self.postponed if work.backlog is not backlog]

    @invariant()
    def the_watermark_is_the_lowest_unfinished_offset(self) -> None:
        for backlog, offsets in self.unfinished.items():
            assert backlog.lowest == min(offsets, default=None)

    @invariant()
    def pending_records_are_counted_and_limited(self) -> None:
        left = [work for work in self.running if work.backlog.dropped]
        live = sum(len(self.unfinished[backlog]) for backlog in self.backlogs.values())
        assert self.scheduler.count == live + len(left) <= self.limits.records + len(left)
        assert self.scheduler.running == len(self.running)
        for backlog in self.backlogs.values():
            assert backlog.count == len(self.unfinished[backlog])
            assert len(backlog.works) <= self.limits.span

    def teardown(self) -> None:
        """All records that are left can be handled, no matter what happened before."""
        for backlog in self.backlogs.values():
            self.scheduler.block(backlog, False)
        for work in self.postponed:
            self.scheduler.due(work)
        self.postponed = []
        while self.running or self.scheduler.count:
            before = len(self.running)
            self.start()
            if len(self.running) == before:
                assert self.running, "records are left, and none of them can start"
                work = self.running.pop()
                self.unfinished[work.backlog].discard(work.offset)
                self.scheduler.finish(work)
        assert (self.scheduler.count, self.scheduler.size) == (0, 0)


class RunningByPartition(Running):
    order = "partition"


class RunningInAnyOrder(Running):
    order = "none"


TestRunning = Running.TestCase
TestRunningByPartition = RunningByPartition.TestCase
TestRunningInAnyOrder = RunningInAnyOrder.TestCase
for case in (TestRunning, TestRunningByPartition, TestRunningInAnyOrder):
    case.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def scheduler(order: str, *records: Record, limits: Limits = LIMITS) -> tuple[Scheduler, Backlog]:
    made, backlog = Scheduler(order, limits), Backlog(TopicPartition("t", 0), 0)
    made.put(backlog, records)
    return made, backlog


def offsets(made: Scheduler) -> list[int]:
    """Start what can start."""
    started = []
    while (work := made.start(1.0)) is not None:
        started.append(work.offset)
    return started


def test_keys_with_the_same_hash_do_not_wait_for_each_other() -> None:
    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and other.name == self.name

    made = Scheduler(lambda each: Key(str(each.value)), LIMITS)
    backlog = Backlog(TopicPartition("t", 0), 0)
    made.put(backlog, [record(0, offset, value=value) for offset, value in enumerate((b"a", b"b", b"a"))])
    assert offsets(made) == [0, 1]


def test_what_cannot_be_hashed_is_named() -> None:
    # The application's function may return anything.
    order: Any = lambda each: [each.value]  # noqa: E731
    made = Scheduler(order, LIMITS)
    with pytest.raises(TypeError, match=r"order returned \[b'a'\], which cannot be hashed"):
        made.put(Backlog(TopicPartition("t", 0), 0), [record(0, 0, value=b"a")])


def test_partitions_take_turns() -> None:
    made = Scheduler("none", Limits(100, 1 << 20, 6))
    for partition in (0, 1, 2):
        backlog = Backlog(TopicPartition("t", partition), 0)
        made.put(backlog, [record(partition, offset) for offset in range(5)])
    started = [made.start(1.0) for _ in range(6)]
    assert [work.backlog.partition.partition for work in started if work] == [0, 1, 2, 0, 1, 2]


def test_a_partition_that_is_not_handled_leaves_room_to_the_others() -> None:
    made, backlog = scheduler("partition", *(record(0, offset) for offset in range(4)))
    assert made.room(backlog, 3) == 0
    assert made.room(Backlog(TopicPartition("t", 1), 0), 3) == 4


def test_finished_records_behind_an_unfinished_one_are_limited() -> None:
    """The span is: what is remembered does not grow for as long as the first one takes."""
    made, backlog = scheduler("none", record(0, 0))
    first = made.start(1.0)
    offset = 0
    while made.room(backlog, 1):
        offset += 1
        made.put(backlog, [record(0, offset)])
        work = made.start(1.0)
        assert work is not None
        made.finish(work)
    assert len(backlog.works) == LIMITS.span
    assert backlog.lowest == 0
    assert first is not None
    made.finish(first)
    assert backlog.lowest is None
    assert made.relieved(backlog, 1)


def test_bytes_limit_what_is_taken() -> None:
    made, backlog = scheduler("none", record(0, 0, value=bytes(600)), limits=Limits(100, 1000, 3))
    assert made.room(backlog, 2) == 0
    assert made.room(backlog, 1) > 0
    made.put(backlog, [record(0, 1, value=bytes(600))])
    assert made.full


def test_a_batch_grows_until_its_first_call() -> None:
    made, backlog = scheduler("partition", record(0, 0), limits=Limits(100, 1 << 20, 3, batch=3))
    made.put(backlog, [record(0, 1)])
    work = made.start(1.0)
    assert work is not None
    assert [each.offset for each in work.records] == [0, 1]
    made.put(backlog, [record(0, offset) for offset in (2, 3, 4, 5)])
    assert made.start(1.0) is None
    assert backlog.lowest == 0
    made.finish(work)
    following = made.start(1.0)
    assert following is not None
    assert [each.offset for each in following.records] == [2, 3, 4]


def test_a_batch_that_gathers_starts_once_it_is_full_or_has_waited() -> None:
    limits = Limits(100, 1 << 20, 3, batch=3, gathers=True)
    made, backlog = scheduler("partition", record(0, 0), record(0, 1), limits=limits)
    assert made.start(1.0) is None
    made.put(backlog, [record(0, offset) for offset in (2, 3)])
    full = made.start(1.0)
    assert full is not None
    assert [each.offset for each in full.records] == [0, 1, 2]
    made.finish(full)
    assert made.start(1.0) is None
    assert backlog.lowest == 3
    made.gathered(backlog)
    made.put(backlog, [record(0, 4)])
    waited = made.start(1.0)
    assert waited is not None
    assert [each.offset for each in waited.records] == [3, 4]


def test_a_batch_that_gathers_is_dropped_with_its_partition() -> None:
    made, backlog = scheduler("none", record(0, 0), limits=Limits(100, 1 << 20, 3, batch=3, gathers=True))
    made.drop(backlog)
    made.all_gathered()
    assert made.start(1.0) is None
    assert (backlog.lowest, made.count) == (0, 0)


def test_a_batch_that_is_handled_record_by_record_moves_the_watermark_with_each() -> None:
    made, backlog = scheduler("partition", *(record(0, at) for at in range(3)), limits=Limits(9, 1 << 20, 3, batch=3))
    work = made.start(1.0)
    assert work is not None
    work.item, work.rest = work.item[:1], work.item[1:]
    seen = []
    while work.rest:
        seen.append((work.records[0].offset, backlog.lowest, made.count))
        made.finish_one(work)
        assert made.start(1.0) is work
    made.finish(work)
    assert seen == [(0, 0, 3), (1, 1, 2)]
    assert (backlog.lowest, made.count, made.size) == (None, 0, 0)


def test_a_batch_that_is_handled_record_by_record_takes_no_other() -> None:
    made, backlog = scheduler("partition", *(record(0, at) for at in range(3)), limits=Limits(9, 1 << 20, 3, batch=9))
    work = made.start(0.0)
    assert work is not None
    work.item, work.rest = work.item[:1], work.item[1:]
    made.postpone(work)
    made.due(work)
    made.put(backlog, [record(0, 3)])
    handled = []
    while (next_one := made.start(0.0)) is not None:
        handled.append([each.offset for each in next_one.item])
        made.finish_one(next_one) if next_one.rest else made.finish(next_one)
    assert handled == [[0], [1], [2], [3]]


def test_the_size_of_a_record_counts_its_key_value_and_headers() -> None:
    assert size_of(record(0, 0, b"12", b"345")) == size_of(record(0, 0)) + 5
    with_headers = Record("t", 0, 0, 0, None, b"", (("name", bytes(1000)), ("other", None)))
    assert size_of(with_headers) >= size_of(record(0, 0)) + 1009
