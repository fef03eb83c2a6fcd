"""Peers whose responses are none to their requests, or have the same error for ever, and clients of every kind.

Whatever it is, no call raises an error that is not the library's, none is late, no client ends for a response that it
cannot use, nothing is repeated without a pause, and everything works again when the peer does.

One case takes 0.2 to 1 s of computing time; all mutations together take four minutes, all codes a quarter of an hour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.cluster.answers import ANSWERS
from aiokproto.codec import registry
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.failures import Action, Situation, classify
from aiokproto.simulation import Simulation
from tests.simulation.everything import (
    MOST_REQUESTS,
    OLD,
    OLD_APIS,
    RECOVERY,
    SENDERS,
    WRITER,
    Everything,
    cluster,
)
from tests.simulation.mutations import MUTATIONS, mutated
from tests.simulation.pushing import early
from tests.simulation.sharing import configure
from tests.simulation.world import MOST_TURNS

MUTATED_FOR = 8.0
CODE_FOR = 4.0
"""Virtual seconds of each mutation, and of each code."""

CONNECTING = {16, 17, 18, 32, 36, 93}
"""Declared, and sent while a connection is made, or only once: tested elsewhere, but for ApiVersions."""

FINAL = {"codes are unknown"}
"""Mutations after which a client may have ended, with the library's error: the code can be one that ends it."""

Program = Callable[[Simulation, Cluster, Everything], Any]


def run(api: int, program: Program) -> None:
    """Run a program with the clients that send an API."""
    simulation = Simulation(api)
    unseen: list[dict[str, Any]] = []
    simulation.loop.set_exception_handler(lambda loop, context: unseen.append(context))

    async def main() -> None:
        release = OLD if api in OLD_APIS else None
        async with cluster(release) as brokers:
            await brokers.create_topic("t", 2, replication=2)
            if release is None:
                await configure(brokers)
            clients = Everything(simulation, brokers, {*SENDERS[api], WRITER})
            try:
                await clients.start()
                await program(simulation, brokers, clients)
                await clients.all_work(RECOVERY)
            finally:
                await clients.close()
            assert not clients.foreign
            assert not clients.late

    with early():
        simulation.run(main())
    assert not unseen
    turns = simulation.loop.turns / simulation.time()
    assert turns <= MOST_TURNS, f"{turns:.0f} turns of the loop in a second"


def test_every_declared_api_is_tried() -> None:
    assert ANSWERS.keys() - CONNECTING <= SENDERS.keys()


BELIEVED = (14, 18, 22, 65)
"""SyncGroup has what the group's leader wrote, ApiVersions what the broker serves, InitProducerId the identity of later
requests, and DescribeTransactions which producer has an id now."""


def mutations() -> list[Any]:
    apis, cases = list(SENDERS), []
    for number, api in enumerate(apis):
        for place, how in enumerate(MUTATIONS):
            # A run takes seconds: a few of them say whether the harness still works.
            usual = number % 5 == 0 and place == number % len(MUTATIONS)
            marks = () if usual else (pytest.mark.extended,)
            cases.append(pytest.param(api, how, marks=marks, id=f"{registry.api_name(api)}-{how}"))
    return cases


@pytest.mark.parametrize(("api", "how"), mutations())
def test_clients_survive_responses_that_are_none_to_their_requests(api: int, how: str) -> None:
    random = Random(how)

    async def change(info: RequestInfo, serve: Serve) -> Response | None:
        response = await serve(info.request)
        return None if response is None else mutated(random, how, response, info.version)

    async def program(simulation: Simulation, brokers: Cluster, clients: Everything) -> None:
        begun = int(simulation.time()) + 1
        with brokers.faults.intercept(registry.request(api), change) as rule:
            await asyncio.sleep(MUTATED_FOR)
            assert rule.count
        rate, client, name = clients.most_requests(begun)
        assert rate <= MOST_REQUESTS, f"{client}: {rate:.0f} {name} requests a second"
        if how not in FINAL and api not in BELIEVED:
            assert not clients.ended

    run(api, program)


CODES = sorted(set(ErrorCode) - {ErrorCode.NONE})


def actions(api: int) -> list[ErrorCode]:
    """One code for each action that the API's table knows."""
    found: dict[Action, ErrorCode] = {}
    for code in CODES:
        found.setdefault(classify(code, Situation(api, member=True, joined=True, transactional=api in (0, 22))), code)
    return list(found.values())


@pytest.mark.extended
@pytest.mark.parametrize("codes", ["one of each action", "all"])
@pytest.mark.parametrize("api", SENDERS, ids=registry.api_name)
def test_nothing_is_repeated_without_a_pause(api: int, codes: str) -> None:
    kind = registry.request(api)
    fast: list[str] = []

    async def program(simulation: Simulation, brokers: Cluster, clients: Everything) -> None:
        for code in CODES if codes == "all" else actions(api):
            begun = int(simulation.time()) + 1
            with brokers.faults.fail(kind, code):
                await asyncio.sleep(CODE_FOR)
            rate, client, name = clients.most_requests(begun)
            if rate > MOST_REQUESTS:
                fast.append(f"{code.name}: {client}: {rate:.0f} {name} requests a second")

    run(api, program)
    assert not fast
