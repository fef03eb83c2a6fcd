"""Random schedules of drivers, attempts and faults: what Spark has committed is there, once."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import BLOCKS, Workload, check_block, traces
from tests.spark.sink.exactly_once import schedules

WORKLOAD = Workload("schedules.run(seed=", schedules.schedule, schedules.run, 4)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_rows_of_committed_batches_are_visible_once(block: int) -> None:
    check_block(WORKLOAD, block)


def test_a_seed_gives_the_same_run_again() -> None:
    assert traces(WORKLOAD) == traces(WORKLOAD)
