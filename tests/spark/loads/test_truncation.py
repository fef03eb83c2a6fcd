"""Logs that no longer have the records that were loaded from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.records import BatchRecord
from aiokproto.spark import read, runs
from aiokproto.spark.positions import Divergence
from aiokproto.spark.truncation import TruncationError
from aiokproto.types import TopicPartition
from tests.spark.loads.output import Output, expected, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def two_batches(output: Output) -> None:
    """Partition 0 has batches of ten and of four records, all of them loaded."""
    output.kafka.produce(output.topic, 0, numbered(4, 10))
    output.load()


def diverge(output: Output, to_offset: int, values: int = 0) -> None:
    """Elect a leader whose log ends at an offset; it then writes so many batches of one record."""
    output.kafka.broker.diverge_log(output.topic, 0, to_offset, [b"new %d" % number for number in range(values)])


def test_a_log_that_was_truncated_and_has_grown_again_is_an_error(output: Output) -> None:
    """The log's end doesn't show it, because it's beyond the end of the loaded records."""
    two_batches(output)
    diverge(output, 10, values=7)
    with pytest.raises(TruncationError) as caught:
        output.load()
    partition = TopicPartition(output.topic, 0)
    assert caught.value.divergences == {partition: Divergence(10, 14, 0, 0)}
    assert (
        f"{partition} was read up to offset 14 of leader epoch 0, but matches the log only up to offset 10 "
        "of leader epoch 0" in str(caught.value)
    )
    assert len(runs(output.path)) == 1
    assert output.rows() == expected(14, 5)


@pytest.mark.extended
def test_a_log_that_was_truncated_and_is_shorter_is_an_error(output: Output) -> None:
    two_batches(output)
    diverge(output, 10)
    with pytest.raises(TruncationError, match="only up to offset 10"):
        output.load()


def test_the_remaining_records_are_loaded_and_the_gap_recorded_if_permitted(output: Output) -> None:
    two_batches(output)
    diverge(output, 10, values=7)
    result = output.load(on_truncation="continue")
    assert [(one.start, one.end, one.rows) for one in result.partitions] == [(10, 17, 7), (5, 5, 0)]
    assert [one.diverged for one in runs(output.path)[1].partitions] == [Divergence(10, 14, 0, 0), None]
    new = [(0, 10 + number, f"new {number}") for number in range(7)]
    assert output.rows() == sorted([*expected(14, 5), *new])
    assert output.load().run_id is None, "recorded once, it is no error again"
    output.kafka.produce(output.topic, 0, [BatchRecord(17, 0, None, b"last")])
    assert output.load().rows == 1


@pytest.mark.extended
def test_an_unchanged_log_is_loaded_after_a_change_of_leader_epochs(output: Output) -> None:
    """An election that loses no record."""
    two_batches(output)
    diverge(output, 14, values=2)
    assert output.load().rows == 2
    assert [one.leader_epoch for one in runs(output.path)[1].partitions] == [1, 0]


@pytest.mark.extended
@pytest.mark.parametrize("on_truncation", ["fail", "continue"])
def test_a_log_that_is_truncated_while_it_is_loaded_is_an_error(output: Output, on_truncation: str) -> None:
    two_batches(output)
    output.kafka.produce(output.topic, 0, numbered(3, 14))

    def truncated(frame: DataFrame) -> DataFrame:
        diverge(output, 14, values=9)
        return frame

    with pytest.raises(TruncationError, match=r"up to offset 17 of leader epoch 0, but matches .* up to offset 14"):
        output.load(transform=truncated, on_truncation=on_truncation)
    assert output.rows() == expected(14, 5)
    assert len(output.data()) == 1
    assert output.load().rows == 9


@pytest.mark.extended
def test_a_load_that_went_on_after_a_truncation_can_be_run_again(output: Output) -> None:
    two_batches(output)
    diverge(output, 10, values=7)
    diverged = output.load(on_truncation="continue")
    assert diverged.run_id is not None
    before = output.rows()
    assert output.rerun(diverged.run_id).rows == diverged.rows
    assert output.rows() == before


@pytest.mark.extended
def test_a_load_is_not_run_again_from_a_log_that_was_truncated(output: Output) -> None:
    two_batches(output)
    (first,) = runs(output.path)
    diverge(output, 10, values=7)
    with pytest.raises(TruncationError, match="only up to offset 10") as error:
        output.rerun(first.run_id)
    assert "on_truncation" not in str(error.value), "a rerun has no such choice"
    assert read(output.spark, output.path).count() == 19


def test_an_unknown_policy_is_refused(output: Output) -> None:
    with pytest.raises(ConfigurationError, match="on_truncation='ignore'"):
        output.load(on_truncation="ignore")
