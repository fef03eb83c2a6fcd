"""Faults of a simulation: a schedule from a seed, which can be printed, repeated and shortened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from aiokproto.error_codes import ErrorCode
from tests.simulation import broker_faults, host_faults, network_faults, request_faults
from tests.simulation.environment import Environment
from tests.simulation.request_faults import REFUSALS, SPLITTING


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        at: When it happens, in virtual seconds since the workload started.
        kind: The name of a function in one of the modules of faults.
        seconds: Its duration.
        options: Further parameters.
    """

    at: float
    kind: str
    seconds: float
    options: tuple[Any, ...] = ()


def stalled(faults: Iterable[Fault]) -> float:
    """Return for how many seconds faults stall the event loop."""
    return sum(fault.seconds for fault in faults if fault.kind == "stall")


WEIGHTS = {
    "kill": 2,
    "stop": 2,
    "move_leader": 4,
    "move_coordinator": 2,
    "lose_tail": 3,
    "forget_brokers": 1,
    "cut": 2,
    "reset": 3,
    "silence": 2,
    "delay": 2,
    "refuse": 8,
    "drop": 4,
    "stall": 1,
    "hold_threads": 1,
    "fill_executor": 1,
    "delay_answers": 2,
    "serve_twice": 2,
    "throttle": 2,
    "grow": 1,
}
"""How often each kind is drawn, relative to the others."""

WITH_TRANSACTIONS = {name: weight for name, weight in WEIGHTS.items() if name != "lose_tail"} | {"move_transactions": 4}
"""The same for transactions. No change of leader in these workloads may lose their markers."""

DRAWN = {api: [*codes, *SPLITTING.get(api, ())] for api, codes in REFUSALS.items()}
"""The codes that refusals are drawn from."""

MODULES = (broker_faults, host_faults, network_faults, request_faults)
KINDS: dict[str, Callable[..., Awaitable[None]]] = {
    name: getattr(module, name)
    for name in {**WEIGHTS, **WITH_TRANSACTIONS}
    for module in MODULES
    if hasattr(module, name)
}


def draw_some(
    seed: int,
    until: float,
    brokers: int,
    partitions: int,
    apis: tuple[str, ...],
    *,
    weights: Mapping[str, int] = WEIGHTS,
    refusals: Mapping[str, Sequence[ErrorCode]] = DRAWN,
) -> list[Fault]:
    """Return the faults of a workload with groups or transactions, see :func:`draw`: few, and often none."""
    random = Random(f"{seed}/faults")
    return [
        draw(random, until, brokers, partitions, apis, weights=weights, refusals=refusals)
        for _ in range(random.choice((0, 1, 2, 3, 5)))
    ]


def draw(
    random: Random,
    until: float,
    brokers: int,
    partitions: int,
    apis: tuple[str, ...],
    *,
    weights: Mapping[str, int] = WEIGHTS,
    refusals: Mapping[str, Sequence[ErrorCode]] = DRAWN,
) -> Fault:
    """Return a fault at some time before ``until``. The first API is the one that the workload tests."""
    # Many faults come with the first request, and most come early, because most defects are at the start of a session.
    at = 0.0 if random.random() < 0.3 else until * random.random() ** 3
    seconds = random.choice((0.05, 0.5, 2.0, 8.0)) * random.uniform(0.5, 1.5)
    broker, api = random.randrange(brokers), random.choices(apis, [2 * len(apis), *[1] * (len(apis) - 1)])[0]
    kind = random.choices(tuple(weights), tuple(weights.values()))[0]
    choices: dict[str, Callable[[], tuple[Any, ...]]] = {
        "kill": lambda: (broker, random.choice((0.0, 1.0, 5.0))),
        "move_leader": lambda: (random.randrange(partitions),),
        "move_coordinator": lambda: (random.random() < 0.5,),
        "move_transactions": lambda: (random.random() < 0.5,),
        "lose_tail": lambda: (random.randrange(partitions), random.choice((1, 3, 1000))),
        "forget_brokers": lambda: (),
        "silence": lambda: (broker, *random.choice(((True, True), (True, False), (False, True)))),
        "delay": lambda: (broker, random.choice((0.05, 0.5))),
        "refuse": lambda: (
            api,
            random.choice(refusals[api]),
            random.randint(1, 5),
        ),
        "drop": lambda: (api, random.choice(("request", "response")), random.randint(1, 3)),
        "delay_answers": lambda: (api, random.choice((0.5, 3.0))),
        "serve_twice": lambda: (api,),
        "throttle": lambda: (api, random.choice((50, 1000, 5000))),
        "grow": lambda: (partitions + random.randint(1, 3),),
        "stall": lambda: (),
        "hold_threads": lambda: (),
        "fill_executor": lambda: (),
    }
    options = choices.get(kind, lambda: (broker,))()
    return Fault(round(at, 4), kind, round(seconds, 4), options)


async def carry_out(environment: Environment, schedule: list[Fault]) -> None:
    """Inject all faults of a schedule, and wait for their end."""

    async def happen(fault: Fault) -> None:
        await asyncio.sleep(fault.at)
        environment.simulation.trace.note("fault", repr(fault))
        await KINDS[fault.kind](environment, fault.seconds, *fault.options)

    await asyncio.gather(*(happen(fault) for fault in schedule))
