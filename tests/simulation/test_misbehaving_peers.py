"""Peers whose responses don't match their requests, or have the same error forever, and clients of every kind.

In every case no call raises or logs a foreign error, none is late, no client ends because of a response that it cannot
use, nothing is repeated without a pause, and everything works again when the peer does.

One case takes 0.3 to 2 s of computing time; all mutations, and all codes, take some five minutes.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.cluster.answers import ANSWERS
from aiokproto.codec import registry
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError, KafkaError
from aiokproto.simulation import Simulation
from tests.simulation.environment import MAX_TURNS
from tests.simulation.everything import (
    MAX_REQUESTS,
    OLD,
    OLD_APIS,
    RECOVERY,
    SENDERS,
    WRITER,
    Everything,
    cluster,
)
from tests.simulation.mutations import MUTATIONS, mutated, with_null
from tests.simulation.pushing import early
from tests.simulation.sharing import configure

MUTATED_FOR = 8.0
CODE_FOR = 4.0
"""The duration of each mutation, and of each code, in virtual seconds."""

CONNECTING = {16, 17, 18, 32, 36, 93}
"""APIs that are sent while a connection is made, or only once. Other tests cover them, except for ApiVersions."""

FINAL = {"codes are unknown"}
"""Mutations after which a client may have ended with the library's error, because the code can be one that ends it."""

MAX_MEMORY = 8 << 20
"""Bytes that clients and brokers together may take beyond what they have when the damage starts. Most of them are
records that are written meanwhile, and the code and tables that the first use of an API makes."""


class Log(logging.Handler):
    """The log lines of clients.

    Attributes:
        foreign: Logged errors that are neither this library's nor the system's.
        ended: The last client of each kind that ended for good. :class:`Everything` adds what it sees by itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self.ended: dict[str, KafkaError] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take in a line."""
        if record.name.startswith("aiokproto.broker"):
            return
        text = record.getMessage()
        found = [record.exc_info[1] if record.exc_info else None, *(record.args or ())]
        for error in found:
            if isinstance(error, BaseException) and not isinstance(error, KafkaError | OSError):
                self.foreign.append(f"{text}: {error!r}")
        if " task has ended" in text:
            self.ended[text.partition(":")[0]] = KafkaError(text)


Program = Callable[[Simulation, Cluster, Everything], Any]


def run(api: int, program: Program) -> None:
    """Run a program with the clients that send an API."""
    simulation, log = Simulation(api), Log()
    unseen: list[dict[str, Any]] = []
    simulation.loop.set_exception_handler(lambda loop, context: unseen.append(context))

    async def main() -> None:
        release = OLD if api in OLD_APIS else None
        async with cluster(release) as brokers:
            await brokers.create_topic("t", 2, replication=2)
            if release is None:
                await configure(brokers)
            clients = Everything(simulation, brokers, {*SENDERS[api], WRITER})
            log.ended = clients.ended
            try:
                await clients.start()
                await program(simulation, brokers, clients)
                await clients.all_work(RECOVERY)
            finally:
                await clients.close()
            assert not clients.foreign
            assert not clients.late

    logger = logging.getLogger("aiokproto")
    logger.addHandler(log)
    # Pytest keeps each line, with tracebacks and their frames, which aren't the clients' memory.
    logger.propagate = False
    try:
        with early():
            simulation.run(main())
    finally:
        logger.removeHandler(log)
        logger.propagate = True
    assert not unseen
    assert not log.foreign
    turns = simulation.loop.turns / simulation.time()
    assert turns <= MAX_TURNS, f"{turns:.0f} turns of the loop in a second"


@contextmanager
def memory() -> Iterator[list[int]]:
    """Measure the most memory (bytes) that the block takes beyond what is taken when it starts."""
    most: list[int] = []
    gc.collect()
    tracemalloc.start()
    try:
        yield most
    finally:
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


def test_every_declared_api_is_tried() -> None:
    assert ANSWERS.keys() - CONNECTING <= SENDERS.keys()


BELIEVED = (18, 22, 65)
"""Clients believe these responses: ApiVersions says what the broker serves, InitProducerId the identity of later
requests, DescribeTransactions which producer has an id now."""


def mutations() -> list[Any]:
    apis, cases = list(SENDERS), []
    for number, api in enumerate(apis):
        for place, how in enumerate(MUTATIONS):
            # A run takes seconds, and a few of them show whether the harness still works.
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
        with brokers.faults.intercept(registry.request(api), change) as rule, memory() as most:
            await asyncio.sleep(MUTATED_FOR)
            assert rule.count
        assert most[0] <= MAX_MEMORY, f"{most[0] / 2**20:.1f} MiB"
        rate, client, name = clients.most_requests(begun)
        assert rate <= MAX_REQUESTS, f"{client}: {rate:.0f} {name} requests a second"
        if how not in FINAL and api not in BELIEVED:
            assert not clients.ended

    run(api, program)


@pytest.mark.parametrize("api", SENDERS, ids=registry.api_name)
def test_null_where_the_schema_has_none_cannot_be_decoded(api: int) -> None:
    kind, random = registry.response(api), Random(api)
    for version in range(kind.versions.lowest, kind.versions.highest + 1):
        response = kind()
        data = bytes(response.encode(version))
        damaged = with_null(random, kind.decode(data, version), version)
        if damaged != data:
            with pytest.raises(DecodeError):
                kind.decode(damaged, version)


CODES = sorted(set(ErrorCode) - {ErrorCode.NONE})


@pytest.mark.extended
@pytest.mark.parametrize("api", SENDERS, ids=registry.api_name)
def test_nothing_is_repeated_without_a_pause(api: int) -> None:
    kind = registry.request(api)
    fast: list[str] = []

    async def program(simulation: Simulation, brokers: Cluster, clients: Everything) -> None:
        for code in CODES:
            begun = int(simulation.time()) + 1
            with brokers.faults.fail(kind, code):
                await asyncio.sleep(CODE_FOR)
            rate, client, name = clients.most_requests(begun)
            if rate > MAX_REQUESTS:
                fast.append(f"{code.name}: {client}: {rate:.0f} {name} requests a second")

    run(api, program)
    assert not fast
