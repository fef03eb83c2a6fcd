"""Consumers under the faults of many seeds, in groups and without: their guarantees hold in all of them."""

from __future__ import annotations

from functools import partial

from tests.simulation import consuming, handling, producing, pushing, reading, sharing, truncating
from tests.simulation.environment import TURNS_A_SECOND
from tests.simulation.faults import Fault
from tests.simulation.seeds import Workload, guarantees_hold, same_run_again


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
    "a protocol that comes and goes": Workload(
        "consuming.run(protocol='auto', protocol_goes=True, seed=",
        partial(consuming.schedule, protocol="auto"),
        partial(consuming.run, protocol="auto", protocol_goes=True),
        20,
    ),
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

test_consumers = guarantees_hold(WORKLOADS)
test_a_seed_gives_the_same_run_again = same_run_again(__name__, WORKLOADS)


def test_no_member_spins_while_brokers_are_silent() -> None:
    """Nothing can be done for half a minute, so members do almost nothing."""
    silent = [Fault(6.0, "silence", 30.0, (broker, True, True)) for broker in range(consuming.BROKERS)]
    simulation = consuming.run(2, silent)
    assert simulation.time() > 36
    assert simulation.loop.turns < consuming.run(2, []).loop.turns + 4 * TURNS_A_SECOND * 30
