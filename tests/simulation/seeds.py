"""Workloads with the faults of many seeds, and the tests of each table of workloads.

``SIMULATION_SEEDS=10000`` runs more of them, ``SIMULATION_FIRST=500`` others. Every workload runs at least one. They
are divided into `BLOCKS`: `make test` runs one of these, `make test-all` six, and ``THOROUGH=1`` all.

A module of tests has a table, ``WORKLOADS``, and gives the tests that these functions return a name, under which pytest
finds them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from aiokproto.simulation import DeadlockError, Simulation
from tests.simulation.faults import Fault
from tests.simulation.shrinking import shrunk
from tools.setup.project import ROOT

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "1000"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
BLOCKS = 20
USUAL, EXTENDED = range(1), range(1, 6)
"""The blocks of `make test`, and those that `make test-all` adds."""


def _block(number: int) -> Any:
    if number in USUAL:
        return number
    return pytest.param(number, marks=pytest.mark.extended if number in EXTENDED else pytest.mark.thorough)


in_blocks = pytest.mark.parametrize("block", [_block(number) for number in range(BLOCKS)])
"""Marks a test of one block of the seeds."""


class Workload(NamedTuple):
    """A program with random faults.

    Attributes:
        call: The call that runs it, without seed and faults.
        schedule: Returns the faults of a seed.
        run: Runs a seed under faults.
        part: It gets one seed of this many.
    """

    call: str
    schedule: Callable[[int], list[Fault]]
    run: Callable[[int, list[Fault]], Simulation]
    part: int


def check_block(workload: Workload, block: int) -> None:
    """Run one of `BLOCKS` parts of the seeds; fail with the shortest schedule that breaks a guarantee."""
    for seed in range(FIRST + block, FIRST + max(SEEDS // workload.part, 1), BLOCKS):
        schedule = workload.schedule(seed)

        def why(faults: list[Fault], seed: int = seed) -> Exception | None:
            return _broken(lambda: workload.run(seed, faults))

        error = why(schedule)
        if error is not None:
            shortest = "\n".join(f"    {fault}," for fault in shrunk(schedule, lambda faults: why(faults) is not None))
            pytest.fail(f"{error}\n\n{workload.call}{seed}, faults=[\n{shortest}\n])", pytrace=False)


def _broken(run: Callable[[], object]) -> Exception | None:
    """Return the error of a run that breaks a guarantee; None if it keeps all of them."""
    try:
        run()
    except (AssertionError, DeadlockError) as error:
        return error
    return None


def guarantees_hold(workloads: Mapping[str, Workload]) -> Callable[[str, int], None]:
    """Return the test that workloads keep their guarantees with the faults of all seeds."""

    @in_blocks
    @pytest.mark.parametrize("name", workloads)
    def test(name: str, block: int) -> None:
        check_block(workloads[name], block)

    return test


def same_run_again(module: str, workloads: Mapping[str, Workload]) -> Callable[[int], None]:
    """Return the test that a seed gives the same run again, in this process and in another.

    The other process imports the workloads from their module, its sets have another order, and it runs the last
    workload first: the state that a run leaves behind changes the next one in only one of the two.
    """

    @pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (1, 2))])
    def test(seed: int) -> None:
        here = {name: trace(workload, seed) for name, workload in workloads.items()}
        first = next(iter(workloads))
        assert trace(workloads[first], seed) == here[first], first
        assert traces_elsewhere(module, seed) == here

    return test


def trace(workload: Workload, seed: int) -> str:
    """Return the hash that identifies the run of a seed."""
    return workload.run(seed, workload.schedule(seed)).trace.hash


def traces_elsewhere(module: str, seed: int) -> dict[str, str]:
    """Return the traces of ``WORKLOADS`` from another process."""
    program = (
        f"import json; from {module} import WORKLOADS; from {__name__} import trace; "
        f"print(json.dumps({{name: trace(WORKLOADS[name], {seed}) for name in reversed(WORKLOADS)}}))"
    )
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found
