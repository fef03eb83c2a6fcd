"""Clients against a server that damages a broker's responses.

Whatever it sends, each call ends by its deadline with a KafkaError or a result, no task ends with an error that is
never retrieved, the event loop isn't kept busy, and the log isn't flooded.
"""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections import Counter
from collections.abc import Awaitable
from random import Random
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Cluster, Security
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.errors import KafkaError
from aiokproto.simulation import Simulation
from tests.simulation.environment import MAX_TURNS, check_no_task_is_left
from tests.simulation.hostile_server import HostileServer, hostile_server
from tests.simulation.seeds import BLOCKS, FIRST, SEEDS, in_blocks

LIMIT = 5.0
"""Seconds that a call may take according to its options."""

BOOTSTRAP = 2.0
"""Seconds within which a client finds a broker when it starts, according to its options."""

SLACK = 1.0
"""Seconds for what calls do after their deadline: `close()` ends connections."""

MAX_WARNINGS = 40
MAX_MEMORY = 64 << 20
SECURITY: list[dict[str, Any]] = [
    {},
    {"sasl_mechanism": "PLAIN"},
    {"sasl_mechanism": "SCRAM-SHA-256"},
    {"sasl_mechanism": "SCRAM-SHA-512"},
]


class Session:
    """The clients of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.simulation = Simulation(seed)
        self.unseen: list[dict[str, Any]] = []
        self.outcomes: Counter[str] = Counter()
        self.damages: Counter[str] = Counter()

    def run(self) -> None:
        self.simulation.loop.set_exception_handler(lambda loop, context: self.unseen.append(context))
        self.simulation.run(self.main())
        # All clients can end at once, long before a second has passed.
        turns = self.simulation.loop.turns / max(self.simulation.time(), 1)
        assert turns <= MAX_TURNS, f"{turns:.0f} turns of the loop in a second"
        assert not self.unseen

    async def main(self) -> None:
        login = self.random.choice(SECURITY)
        security = Security("SASL_PLAINTEXT", users={"alice": "secret"}) if login else Security()
        # Sessions are short, so that clients authenticate again and again.
        config = {"connections.max.reauth.ms": self.random.choice([0, 1000, 10_000])} if login else {}
        async with Cluster(1, security=security, config=config) as cluster:
            await cluster.create_topic("t", partitions=2)
            async with hostile_server(self.random, cluster.bootstrap_servers) as (server, port):
                options: dict[str, Any] = {
                    "bootstrap_servers": f"127.0.0.1:{port}",
                    # The client connects to this address, whatever the metadata says.
                    "address_map": lambda host, given: ("127.0.0.1", port),
                    "request_timeout_ms": 1000,
                    "max_response_size": 2 << 20,
                    "default_api_timeout_ms": LIMIT * 1000,
                    "bootstrap_resolve_timeout_ms": BOOTSTRAP * 1000,
                    "socket_connection_setup_timeout_ms": 2000,
                }
                if login:
                    options |= {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "alice"} | login
                    options["sasl_password"] = "secret"
                await self.use(options, server)
            self.damages = server.done
        check_no_task_is_left()

    async def use(self, options: dict[str, Any], server: HostileServer) -> None:
        client = Client(**options)
        producer = Producer(**options, delivery_timeout_ms=LIMIT * 1000, linger_ms=0, max_block_ms=LIMIT * 1000)
        consumer = Consumer("t", **options, group_id="g", auto_offset_reset="earliest")
        each: list[Any] = [client, producer, consumer]
        rate = self.random.choice([0.05, 0.2, 0.5, 1.0])
        # Some servers do damage from the first connection on, but most once the clients run, because few would ever
        # start otherwise.
        server.rate = rate if self.random.random() < 0.3 else 0.0
        try:
            for one in each:
                # The client needs a broker that answers first, and then everything else.
                await self.ends(one.start(), BOOTSTRAP + LIMIT)
            server.rate = rate
            for _ in range(3):
                await self.ends(client.request(ListGroupsRequest()))
                # The deadline covers the metadata, and then the delivery.
                await self.ends(producer.send("t", b"value"), 2 * LIMIT)
                await self.ends(consumer.poll(timeout_ms=2000))
                await self.ends(consumer.commit(timeout_ms=2000))
                await asyncio.sleep(self.random.uniform(0, 2))
        finally:
            for one in each:
                await self.ends(one.close(2000))

    async def ends(self, call: Awaitable[Any], limit: float = LIMIT) -> None:
        """Await a call, which may fail, but must not be late."""
        begun = self.simulation.time()
        try:
            await call
            self.outcomes["result"] += 1
        except KafkaError as error:
            self.outcomes[type(error).__name__] += 1
        took = self.simulation.time() - begun
        assert took <= limit + SLACK, f"{call} took {took:.3g} s"


def run(seed: int) -> Session:
    """Run one seed."""
    session = Session(seed)
    session.run()
    return session


@in_blocks
def test_clients_survive_hostile_servers(block: int, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(FIRST + block, FIRST + SEEDS // 4, BLOCKS):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "aiokproto"):
            try:
                run(seed)
            except Exception as error:
                raise AssertionError(f"run({seed}): {error}") from error
        loud = [record for record in caplog.records if record.name != "aiokproto.broker"]
        assert len(loud) <= MAX_WARNINGS, f"run({seed}): {len(loud)} warnings, such as {loud[-1].getMessage()}"


@pytest.mark.extended
def test_the_seeds_damage_everything_and_have_every_outcome() -> None:
    damages, outcomes = Counter[str](), Counter[str]()
    for seed in range(30):
        session = run(seed)
        damages += session.damages
        outcomes += session.outcomes
    assert len(damages) == 18, damages
    assert {"result", "DeadlineError", "BootstrapError", "ClientClosedError"} <= outcomes.keys(), outcomes


@pytest.mark.parametrize("seeds", [range(1, 4), pytest.param(range(4, 10), marks=pytest.mark.extended)])
def test_memory_stays_small(seeds: range) -> None:
    """Announced lengths and numbers of items take no memory."""
    run(0)
    tracemalloc.start()
    try:
        for seed in seeds:
            run(seed)
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
    finally:
        tracemalloc.stop()
