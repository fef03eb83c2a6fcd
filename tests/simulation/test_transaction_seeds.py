"""Transactions, and exactly-once sessions, under the faults of many seeds: their guarantees hold in all of them."""

from __future__ import annotations

import pytest

from tests.simulation import deciding, exactly_once, transacting
from tests.simulation.seeds import BLOCKS, Workload, check_block, traces, traces_elsewhere

WORKLOADS = {
    "transactions": Workload("transacting.run(seed=", transacting.schedule, transacting.run, 8),
    "two-phase commit": Workload("deciding.run(seed=", transacting.schedule, deciding.run, 25),
    "exactly once": Workload("exactly_once.run(seed=", exactly_once.schedule, exactly_once.run, 25),
}


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", WORKLOADS)
def test_transactions(name: str, block: int) -> None:
    check_block(WORKLOADS[name], block)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_gives_the_same_run_again(name: str) -> None:
    assert traces(WORKLOADS[name]) == traces(WORKLOADS[name])


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_gives_the_same_run_in_another_process(name: str) -> None:
    expected = str(traces(WORKLOADS[name]))
    assert traces_elsewhere(__name__, name, "1") == traces_elsewhere(__name__, name, "2") == expected
