"""The records of the state topic, and what follows from them; messages of tasks, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from aiokproto.producer.handed_over import HandedOver
from aiokproto.producer.producer_id import ProducerId
from aiokproto.spark.sink.checkpoint import last_offsets
from aiokproto.spark.sink.exactly_once.coordinator import Coordinator
from aiokproto.spark.sink.exactly_once.protocol import (
    MAX_RUNS,
    Batch,
    Ended,
    FreeId,
    OnLoss,
    Outcome,
    Plan,
    Record,
    State,
    StateError,
    StateReader,
    batch_record,
    no_batch_record,
    snapshot_record,
)
from aiokproto.spark.sink.options import parse_write_options

PLAN = Plan("p", ProducerId(1, 2), (FreeId("a", 3, 4), FreeId("b", 5, 6)), {"query": 7}, two_phase=False)


def read_state(prefix: str, records: Iterable[Record]) -> State:
    reader = StateReader(prefix)
    for key, value in records:
        reader.add(key, value)
    return reader.state()


@pytest.mark.parametrize(("run", "number", "done"), [("query", 7, True), ("query", 8, False), ("other", 0, False)])
def test_the_last_batch_is_done_when_spark_runs_it_again(run: str, number: int, done: bool) -> None:
    assert PLAN.is_done(run, number) is done


def test_a_checkpoint_that_is_older_than_what_was_written_is_refused() -> None:
    """A batch with this number may have other rows by now: they would be dropped."""
    with pytest.raises(StateError, match=r"batch 7 is committed: the checkpoint \(or jobVersion\) is older"):
        PLAN.is_done("query", 6)


@pytest.mark.parametrize("key", [b"foreign", b"[1]", b"\xff"])
def test_a_foreign_record_is_refused_until_it_is_removed(key: bytes) -> None:
    ours = batch_record("p", Batch("query", 3, done=True))
    with pytest.raises(StateError, match="not of this sink"):
        read_state("p", [ours, (key, b"{}")])
    assert read_state("p", [ours, (key, b"{}"), (key, None)]).done() == {"query": 3}


def test_a_job_that_is_forgotten_and_other_prefixes_are_not_in_the_state() -> None:
    records = [batch_record(prefix, Batch("query", 3, done=True)) for prefix in ("p", "p-1", "q")]
    assert read_state("p", [*records, no_batch_record("p", "query")]).done() == {}
    assert read_state("p-1", [*records, no_batch_record("p", "query")]).done() == {"query": 3}


class MemoryLog:
    """A state topic and transactions in memory, without brokers."""

    token = ProducerId(1, 2)

    def __init__(self) -> None:
        self.reader = StateReader("p")
        self.keys: set[bytes] = set()

    async def ensure(self) -> None: ...

    async def grants_two_phase(self) -> bool:
        return False

    async def acquire(self, known: ProducerId | None = None) -> None: ...

    async def read(self) -> State:
        return self.reader.state()

    snapshot_due = False

    async def write_snapshot(self, state: State, *records: Record) -> None:
        raise NotImplementedError

    async def write(self, *records: Record) -> int:
        for key, value in records:
            self.reader.add(key, value)
            # These are the keys that compaction leaves.
            (self.keys.discard if value is None else self.keys.add)(key)
        return -1

    async def still_open(self, transactions: Sequence[HandedOver]) -> list[HandedOver]:
        return list(transactions)

    async def commit(self, transactions: Sequence[HandedOver]) -> list[Ended]:
        return [Ended(Outcome.COMMITTED, self.token) for _ in transactions]

    async def list_open(self, prefix: str) -> list[str]:
        return []

    async def is_current(self, name: str, producer: ProducerId) -> bool:
        return True

    async def abort(self, names: Sequence[str]) -> None: ...


def coordinator(log: MemoryLog) -> Coordinator:
    fake: Any = log
    return Coordinator("p", fake, fake, OnLoss.FAIL)


async def batches(log: MemoryLog, jobs: Iterable[tuple[str, int]]) -> list[Plan]:
    """Plan and commit a batch of each of these jobs; the plans."""
    plans = []
    for run, number in jobs:
        plans.append(await coordinator(log).plan(None, run))
        transaction = HandedOver("p-a", 3, 4, True)
        await coordinator(log).commit(log.token, run, number, [transaction])
    return plans


@pytest.mark.parametrize("count", [3 * MAX_RUNS, pytest.param(200_000, marks=pytest.mark.thorough)])
async def test_only_the_newest_jobs_are_remembered(count: int) -> None:
    log = MemoryLog()
    for begin in range(0, count, MAX_RUNS):
        await batches(log, ((f"job-{number}", 0) for number in range(begin, begin + MAX_RUNS)))
    plan = await coordinator(log).plan(None)
    assert list(plan.done) == [f"job-{number}" for number in range(count - MAX_RUNS, count)]
    # The free ids have one more.
    assert len(log.keys) == MAX_RUNS + 1


@pytest.mark.parametrize("count", [3000, pytest.param(1_000_000, marks=pytest.mark.thorough)])
async def test_only_the_newest_version_of_a_job_is_remembered(count: int) -> None:
    log = MemoryLog()
    await batches(log, (("job", 2 * version) for version in range(count)))
    (plan,) = await batches(log, [("job", 2 * count)])
    assert plan.done == {"job": 2 * count - 2}
    assert len(log.keys) == 2


async def test_a_plan_has_what_its_own_job_has_done() -> None:
    log = MemoryLog()
    plans = await batches(log, [("a", 0), ("b", 3), ("a", 1), ("b", 4)])
    assert [plan.done for plan in plans] == [{}, {}, {"a": 0}, {"b": 3}]
    assert list(log.reader.state().batches) == ["a", "b"]


def test_a_snapshot_replaces_what_is_before_it() -> None:
    before = [batch_record("p", Batch(run, 3, done=True)) for run in ("a", "b")]
    snapshot = snapshot_record("p", State({"b": Batch("b", 4, done=True)}, PLAN.free))
    after = batch_record("p", Batch("c", 5, done=True))
    found = State({"b": Batch("b", 4, done=True), "c": Batch("c", 5, done=True)}, PLAN.free)
    assert read_state("p", [*before, snapshot, after]) == read_state("p", [snapshot, after]) == found
    assert read_state("other", [snapshot]) == State()


def test_a_batch_that_is_to_be_committed_is_not_forgotten() -> None:
    done = {f"{number}": Batch(f"{number}", 0, done=True) for number in range(MAX_RUNS + 5)}
    assert list(State(done).kept().batches) == [*done][5:]
    assert list(State({**done, "1": Batch("1", 0)}).kept().batches) == ["1", *[*done][5:]]


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_the_free_ids_are_in_one_message(partition: int) -> None:
    """A batch of 5000 partitions would have 25 million in its messages."""
    writers = pytest.importorskip("aiokproto.spark.sink.exactly_once.writers")

    class Context:
        def partitionId(self) -> int:
            return partition

        def attemptNumber(self) -> int:
            return 0

    given = {"semantics": "exactly_once", "transactionalIdPrefix": "p", "kafka.bootstrap.servers": "h:1", "topic": "t"}
    nothing: Iterator[pa.RecordBatch] = iter([])
    with patch.object(writers.TaskContext, "get", lambda: Context()):
        message: Any = writers._write(parse_write_options(given), PLAN, "query", 8, nothing)
    assert message.others == (PLAN.free if partition == 0 else ())
    assert message.spare == (PLAN.free[partition] if partition < 2 else None)


def test_a_batch_of_the_last_number_with_other_records_is_of_an_old_checkpoint() -> None:
    batch = Batch("query", 3, done=True, offsets="aa")
    for records in ([batch_record("p", batch)], [snapshot_record("p", State({"query": batch}))]):
        state = read_state("p", records)
        plan = replace(PLAN, done=state.done(), offsets=state.offsets())
        assert plan.is_done("query", 3, "aa")
        assert plan.is_done("query", 3, None)
        assert not plan.is_done("query", 4, "bb")
        with pytest.raises(StateError, match=r"batch 3 of query .* is committed with other offsets"):
            plan.is_done("query", 3, "bb")


def test_the_offsets_of_the_last_batch_come_from_its_sources(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    assert last_offsets(str(tmp_path)) is None
    folder.mkdir()
    found = []
    for number, lines in ((9, 'v1\n{"time":1}\n{"t":1}'), (10, 'v1\n{"time":2}\n{"t":1}'), (11, 'v1\n{}\n{"t":2}')):
        (folder / f"{number}").write_text(lines)
        (folder / f".{number}.crc").write_text("")
        found.append(last_offsets(str(tmp_path)))
    assert found[0] == found[1] != found[2]
    assert last_offsets(tmp_path.as_uri()) == found[2]
    assert last_offsets("s3a://bucket/checkpoint") is None
