"""Groups of consumers under the faults of many seeds: what they promise holds in all of them.

``SIMULATION_SEEDS`` and ``SIMULATION_FIRST`` choose the seeds, as for producers; half as many, since runs are longer.
"""

from __future__ import annotations

import pytest

from tests.simulation import consuming
from tests.simulation.faults import Fault
from tests.simulation.shrinking import shrunk
from tests.simulation.test_seeds import BLOCKS, FIRST, SEEDS, TURNS_A_SECOND, broken


@pytest.mark.parametrize("block", range(BLOCKS))
def test_groups(block: int) -> None:
    for seed in range(FIRST + block, FIRST + SEEDS // 2, BLOCKS):
        schedule = consuming.schedule(seed)

        def fails(faults: list[Fault], seed: int = seed) -> bool:
            return broken(lambda: consuming.run(seed, faults)) is not None

        error = broken(lambda: consuming.run(seed, schedule))  # noqa: B023 - called at once
        if error is not None:
            shortest = "\n".join(f"    {fault}," for fault in shrunk(schedule, fails))
            pytest.fail(f"{error}\n\nconsuming.run({seed}, [\n{shortest}\n])", pytrace=False)


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_gives_the_same_run_again(seed: int) -> None:
    first, second = (consuming.run(seed, consuming.schedule(seed)).trace.hash for _ in range(2))
    assert first == second


def test_no_member_spins_while_brokers_are_silent() -> None:
    """For half a minute nothing can be done: almost nothing is."""
    silent = [Fault(6.0, "silence", 30.0, (broker, True, True)) for broker in range(consuming.BROKERS)]
    simulation = consuming.run(2, silent)
    assert simulation.time() > 36
    assert simulation.loop.turns < consuming.run(2, []).loop.turns + 4 * TURNS_A_SECOND * 30
