"""Many seeds, each with faults of its own: what the client promises holds in all of them.

``SIMULATION_SEEDS=10000`` has more of them, ``SIMULATION_FIRST=500`` others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from aiokproto.simulation import DeadlockError, Simulation
from tests.simulation import producing
from tests.simulation.faults import Fault
from tests.simulation.shrinking import shrunk
from tools.setup.project import ROOT

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "1000"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
BLOCKS = 10
TURNS_A_SECOND = 20
"""More turns of the loop in a virtual second, beside those that the work itself takes, are a busy loop."""


def broken(run: Callable[[], object]) -> Exception | None:
    """Why a run does not keep what is promised."""
    try:
        run()
    except (AssertionError, DeadlockError) as error:
        return error
    return None


@pytest.mark.parametrize("block", range(BLOCKS))
def test_producers(block: int) -> None:
    for seed in range(FIRST + block, FIRST + SEEDS, BLOCKS):
        schedule = producing.schedule(seed)

        def fails(faults: list[Fault], seed: int = seed) -> bool:
            return broken(lambda: producing.run(seed, faults)) is not None

        error = broken(lambda: producing.run(seed, schedule))  # noqa: B023 - called at once
        if error is not None:
            shortest = "\n".join(f"    {fault}," for fault in shrunk(schedule, fails))
            pytest.fail(f"{error}\n\nproducing.run({seed}, [\n{shortest}\n])", pytrace=False)


def trace(seed: int) -> str:
    return producing.run(seed, producing.schedule(seed)).trace.hash


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_gives_the_same_run_again(seed: int) -> None:
    assert trace(seed) == trace(seed)


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    """Whose sets have another order."""
    program = "from tests.simulation.test_seeds import trace; print([trace(seed) for seed in range(5)])"
    expected = str([trace(seed) for seed in range(5)])
    for hash_seed in ("1", "2"):
        assert in_another_process(program, hash_seed) == expected


def in_another_process(program: str, hash_seed: str) -> str:
    """What a program prints."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_no_task_spins_while_a_broker_is_silent() -> None:
    """For a minute nothing can be done: almost nothing is."""
    silent = [Fault(0.0, "silence", 50.0, (broker, True, True)) for broker in range(producing.BROKERS)]
    simulation: Simulation = producing.run(1, silent)
    assert simulation.time() > 50
    assert simulation.loop.turns < producing.run(1, []).loop.turns + TURNS_A_SECOND * 50
