"""Workloads with the faults of many seeds.

``SIMULATION_SEEDS=10000`` has more of them, ``SIMULATION_FIRST=500`` others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from aiokproto.simulation import DeadlockError, Simulation
from tests.simulation.faults import Fault
from tests.simulation.shrinking import shrunk
from tools.setup.project import ROOT

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "1000"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
BLOCKS = 10
TURNS_A_SECOND = 20
"""More turns of the loop in a virtual second, beside those that the work itself takes, are a busy loop."""


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


def traces(workload: Workload) -> list[str]:
    """Return what identifies the runs of some seeds."""
    return [workload.run(seed, workload.schedule(seed)).trace.hash for seed in range(3)]


def traces_elsewhere(module: str, name: str, hash_seed: str) -> str:
    """Print the traces of ``WORKLOADS[name]`` in another process, whose sets have another order; return the output."""
    program = f"from {module} import WORKLOADS, traces; print(traces(WORKLOADS[{name!r}]))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
