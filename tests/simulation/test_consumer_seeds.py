"""Consumers under the faults of many seeds, in groups and without: their guarantees hold in all of them.

``SIMULATION_SEEDS`` and ``SIMULATION_FIRST`` choose the seeds, as for producers; fewer of them, since runs are longer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from aiokproto.simulation import Simulation
from tests.simulation import consuming, handling, producing, pushing, reading, sharing, truncating
from tests.simulation.faults import Fault
from tests.simulation.shrinking import shrunk
from tests.simulation.test_seeds import BLOCKS, FIRST, SEEDS, TURNS_A_SECOND, broken, in_another_process


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


def groups(protocol: str, part: int) -> Workload:
    """Members of a group, with that protocol."""
    call = f"consuming.run(protocol={protocol!r}, seed="
    return Workload(
        call, partial(consuming.schedule, protocol=protocol), partial(consuming.run, protocol=protocol), part
    )


WORKLOADS = {
    "groups": groups("classic", 3),
    "epochs": groups("consumer", 20),
    "migrations": groups("mixed", 20),
    "unclean elections": Workload(
        "consuming.run(protocol='mixed', unclean=True, seed=",
        consuming.unclean_schedule,
        partial(consuming.run, protocol="mixed", unclean=True),
        20,
    ),
    "groups that push metrics": Workload(
        "consuming.run(protocol='mixed', pushes=True, seed=",
        lambda seed: pushing.schedule(
            seed, partial(consuming.schedule, protocol="mixed"), consuming.UNTIL, consuming.BROKERS
        ),
        partial(consuming.run, protocol="mixed", pushes=True),
        30,
    ),
    "producers that push metrics": Workload(
        "producing.run(pushes=True, seed=",
        lambda seed: pushing.schedule(seed, producing.schedule, producing.UNTIL, producing.BROKERS),
        partial(producing.run, pushes=True),
        10,
    ),
    "handlers": Workload("handling.run(seed=", handling.schedule, handling.run, 12),
    "assigned": Workload("reading.run(seed=", reading.schedule, reading.run, 4),
    "truncated": Workload("truncating.run(seed=", truncating.schedule, truncating.run, 4),
    "share groups": Workload("sharing.run(seed=", sharing.schedule, sharing.run, 30),
}


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", WORKLOADS)
def test_consumers(name: str, block: int) -> None:
    workload = WORKLOADS[name]
    for seed in range(FIRST + block, FIRST + SEEDS // workload.part, BLOCKS):
        schedule = workload.schedule(seed)

        def fails(faults: list[Fault], seed: int = seed) -> bool:
            return broken(lambda: workload.run(seed, faults)) is not None

        error = broken(lambda: workload.run(seed, schedule))  # noqa: B023 - called at once
        if error is not None:
            shortest = "\n".join(f"    {fault}," for fault in shrunk(schedule, fails))
            pytest.fail(f"{error}\n\n{workload.call}{seed}, faults=[\n{shortest}\n])", pytrace=False)


def traces(name: str) -> list[str]:
    workload = WORKLOADS[name]
    return [workload.run(seed, workload.schedule(seed)).trace.hash for seed in range(3)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_gives_the_same_run_again(name: str) -> None:
    assert traces(name) == traces(name)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_gives_the_same_run_in_another_process(name: str) -> None:
    """Whose sets have another order."""
    program = f"from tests.simulation.test_consumer_seeds import traces; print(traces({name!r}))"
    assert in_another_process(program, "1") == in_another_process(program, "2") == str(traces(name))


def test_no_member_spins_while_brokers_are_silent() -> None:
    """For half a minute nothing can be done: almost nothing is."""
    silent = [Fault(6.0, "silence", 30.0, (broker, True, True)) for broker in range(consuming.BROKERS)]
    simulation = consuming.run(2, silent)
    assert simulation.time() > 36
    assert simulation.loop.turns < consuming.run(2, []).loop.turns + 4 * TURNS_A_SECOND * 30
