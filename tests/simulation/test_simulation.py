"""A simulation is started with a seed, once, outside of an event loop."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from aiokproto.broker.security.credentials import ScramCredentials
from aiokproto.errors import ConfigurationError
from aiokproto.runtime import current
from aiokproto.simulation import Simulation


async def program() -> int:
    return 3


@pytest.mark.parametrize("seed", ["7", 7.0, True, None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"seed={seed!r}: expected a whole number"):
        Simulation(seed)


def test_a_simulation_runs_once() -> None:
    simulation = Simulation(seed=9)
    assert simulation.run(program()) == 3
    with pytest.raises(RuntimeError, match=r"has run already: create another Simulation\(seed=9\)"):
        simulation.run(program())


def test_a_simulation_is_not_run_within_an_event_loop(recwarn: pytest.WarningsRecorder) -> None:
    simulation = Simulation()

    async def outer() -> None:
        simulation.run(program())

    with pytest.raises(RuntimeError, match="an event loop is running: run"):
        asyncio.run(outer())
    assert simulation.run(program()) == 3
    assert not recwarn.list


def test_there_are_no_signals() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError, match="a simulation has no signals"):
            loop.add_signal_handler(signal.SIGTERM, print)
        with pytest.raises(NotImplementedError, match="a simulation has no signals"):
            loop.remove_signal_handler(signal.SIGTERM)

    Simulation().run(main())


def test_a_secret_does_not_change_what_is_decided_at_random_after_it() -> None:
    async def main(users: dict[str, str]) -> tuple[float, bytes]:
        salts = ScramCredentials(users).salts
        return current().random.random(), salts.secret

    runs = [Simulation(1).run(main(users)) for users in ({}, {"alice": "secret"}, {})]
    assert [drawn for drawn, _ in runs] == [Simulation(1).run(drawn_first())] * 3
    assert len({secret for _, secret in runs}) == 1, "of the seed, all the same"


async def drawn_first() -> float:
    return current().random.random()
