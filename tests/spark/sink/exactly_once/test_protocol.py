"""The records of the state topic, and what follows from them; messages of tasks, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from aiokproto.producer.producer_id import ProducerId
from aiokproto.spark.sink.exactly_once.protocol import (
    Batch,
    FreeId,
    Plan,
    StateError,
    batch_record,
    no_batch_record,
    read_state,
)
from aiokproto.spark.sink.options import parse_write_options

PLAN = Plan("p", ProducerId(1, 2), (FreeId("a", 3, 4), FreeId("b", 5, 6)), {"query": 7}, two_phase=False)


@pytest.mark.parametrize(("run", "number", "done"), [("query", 7, True), ("query", 8, False), ("other", 0, False)])
def test_the_last_batch_is_done_when_spark_runs_it_again(run: str, number: int, done: bool) -> None:
    assert PLAN.is_done(run, number) is done


def test_a_checkpoint_that_is_older_than_what_was_written_is_refused() -> None:
    """A batch with this number may have other rows by now: they would be dropped."""
    with pytest.raises(StateError, match="Prefix=p, and batch 7 is committed: the checkpoint is older"):
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
