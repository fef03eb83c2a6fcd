"""Workloads with the faults of many seeds, and the tests of every table of them.

``SIMULATION_SEEDS=10000`` has more of them, ``SIMULATION_FIRST=500`` others.

A module of tests has a table, ``WORKLOADS``, and names what these functions return for it: pytest finds it there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from aiokproto.simulation import DeadlockError, Simulation
from tests.simulation.faults import Fault
from tests.simulation.shrinking import shrunk
from tools.setup.project import ROOT

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "1000"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
BLOCKS = 10


class Workload(NamedTuple):
    """A program with random faults.

    Attributes:
        call: The call that runs it, but for seed and faults.
        schedule: Returns the faults of a seed.
        run: Runs a seed under faults.
        part: Of how many seeds it gets one.
    """

    call: str
    schedule: Callable[[int], list[Fault]]
    run: Callable[[int, list[Fault]], Simulation]
    part: int


def check_block(workload: Workload, block: int) -> None:
    """Run one of `BLOCKS` parts of the seeds; fail with the shortest schedule that breaks a guarantee."""
    for seed in range(FIRST + block, FIRST + SEEDS // workload.part, BLOCKS):
        schedule = workload.schedule(seed)

        def why(faults: list[Fault], seed: int = seed) -> Exception | None:
            return _broken(lambda: workload.run(seed, faults))

        error = why(schedule)
        if error is not None:
            shortest = "\n".join(f"    {fault}," for fault in shrunk(schedule, lambda faults: why(faults) is not None))
            pytest.fail(f"{error}\n\n{workload.call}{seed}, faults=[\n{shortest}\n])", pytrace=False)


def _broken(run: Callable[[], object]) -> Exception | None:
    """Why a run does not keep what is promised."""
    try:
        run()
    except (AssertionError, DeadlockError) as error:
        return error
    return None


def guarantees_hold(workloads: Mapping[str, Workload]) -> Callable[[str, int], None]:
    """Return the test that workloads keep their guarantees with the faults of all seeds."""

    @pytest.mark.parametrize("block", range(BLOCKS))
    @pytest.mark.parametrize("name", workloads)
    def test(name: str, block: int) -> None:
        check_block(workloads[name], block)

    return test


def same_run_again(workloads: Mapping[str, Workload]) -> Callable[[str], None]:
    """Return the test that a seed gives the same run again."""

    @pytest.mark.parametrize("name", workloads)
    def test(name: str) -> None:
        first, second = traces(workloads[name]), traces(workloads[name])
        assert first == second, f"{first}, then {second}"

    return test


def same_run_in_another_process(module: str, workloads: Mapping[str, Workload]) -> Callable[[str], None]:
    """Return the test that a seed gives the same run in another process, which imports them from their module."""

    @pytest.mark.parametrize("name", workloads)
    def test(name: str) -> None:
        here = str(traces(workloads[name]))
        elsewhere = [traces_elsewhere(module, name, hash_seed) for hash_seed in ("1", "2")]
        assert elsewhere == [here, here], f"{here} here, {elsewhere} elsewhere"

    return test


def traces(workload: Workload) -> list[str]:
    """Return what identifies the runs of some seeds."""
    return [workload.run(seed, workload.schedule(seed)).trace.hash for seed in range(3)]


def traces_elsewhere(module: str, name: str, hash_seed: str) -> str:
    """Print the traces of ``WORKLOADS[name]`` in another process, whose sets have another order; return the output."""
    program = f"from {module} import WORKLOADS; from {__name__} import traces; print(traces(WORKLOADS[{name!r}]))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
