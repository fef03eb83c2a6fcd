"""Producers under the faults of many seeds: their guarantees hold in all of them."""

from __future__ import annotations

from aiokproto.simulation import Simulation
from tests.simulation import producing
from tests.simulation.environment import TURNS_A_SECOND
from tests.simulation.faults import Fault
from tests.simulation.seeds import Workload, check_block, in_blocks, same_run_again

WORKLOADS = {"producers": Workload("producing.run(seed=", producing.schedule, producing.run, 1)}


@in_blocks
def test_producers(block: int) -> None:
    check_block(WORKLOADS["producers"], block)


test_a_seed_gives_the_same_run_again = same_run_again(__name__, WORKLOADS)


def test_no_task_spins_while_a_broker_is_silent() -> None:
    """Nothing can be done for a minute, so tasks do almost nothing."""
    silent = [Fault(0.0, "silence", 50.0, (broker, True, True)) for broker in range(producing.BROKERS)]
    simulation: Simulation = producing.run(1, silent)
    assert simulation.time() > 50
    assert simulation.loop.turns < producing.run(1, []).loop.turns + TURNS_A_SECOND * 50
