"""Clients against servers that play a broker with SCRAM: at the first login, or when a session is renewed.

No matter what a server without the password does, the client's next call raises an AuthenticationError, and so do all
later ones. The client doesn't try again, and it has proved nothing to a server that could use the proof.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import Counter
from random import Random
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.errors import AuthenticationError
from aiokproto.security.scram import DIGESTS
from aiokproto.simulation import Simulation
from tests.security.hostile_scram import FINALS, FIRSTS, PASSWORD
from tests.simulation.environment import MAX_TURNS, check_no_task_is_left
from tests.simulation.hostile_login import DOWNGRADES, LIFETIME_MS, HostileLogin, hostile_login
from tests.simulation.seeds import BLOCKS, FIRST, SEEDS, in_blocks

ATTACKS = (*FIRSTS, *FINALS, *DOWNGRADES, "another password")
PROVED = (*FINALS, "another password", "the first message without end")
"""If the server's first message is like a broker's, the client has to send its proof."""

HONEST = "SaslAuthenticate is hidden"
"""Brokers before 1.0 don't have SaslAuthenticate. The exchange is the same then, and no session ends."""

LIMIT = 60.0
"""Virtual seconds within which a call of a client notices the attack."""


class Session:
    """The client of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.simulation = Simulation(seed)
        self.attack = self.random.choice(ATTACKS)
        self.mechanism = self.random.choice(list(DIGESTS))
        self.at_login = self.random.random() < 0.4
        self.kind = self.random.choice(["client", "producer", "consumer"])
        self.outcomes: Counter[str] = Counter()
        self.unseen: list[dict[str, Any]] = []

    def run(self) -> None:
        self.simulation.loop.set_exception_handler(lambda loop, context: self.unseen.append(context))
        self.simulation.run(self.main())
        # A failed start takes almost no time.
        turns = self.simulation.loop.turns / max(self.simulation.time(), 10)
        assert turns <= MAX_TURNS, f"{turns:.0f} turns of the loop in a second"
        assert not self.unseen

    async def main(self) -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", partitions=2)
            async with hostile_login(cluster.bootstrap_servers, DIGESTS[self.mechanism]) as (server, port):
                options: dict[str, Any] = {
                    "bootstrap_servers": f"127.0.0.1:{port}",
                    "address_map": lambda host, given: ("127.0.0.1", port),
                    "security_protocol": "SASL_PLAINTEXT",
                    "sasl_mechanism": self.mechanism,
                    "sasl_username": "alice",
                    "sasl_password": PASSWORD,
                }
                await self.use(options, server)
        check_no_task_is_left()

    async def use(self, options: dict[str, Any], server: HostileLogin) -> None:
        one = self.client(options)
        if self.at_login:
            server.attack = self.attack
            if self.attack == HONEST:
                await one.start()
                await self.call(one)
            else:
                await self.fails(one.start())
        else:
            await one.start()
            await self.call(one)
            await asyncio.sleep(self.random.uniform(0, 2 * LIFETIME_MS / 1000))
            server.attack = self.attack
            if self.attack != HONEST:
                for _ in range(2):
                    await self.fails(self.calls(one))
                await self.no_further_login(server)
        await one.close()
        self.check_tokens(server)

    def client(self, options: dict[str, Any]) -> Any:
        if self.kind == "client":
            return Client(**options)
        if self.kind == "producer":
            return Producer(**options, linger_ms=0)
        return Consumer("t", **options, group_id="g", auto_offset_reset="earliest")

    async def call(self, one: Any) -> None:
        if self.kind == "client":
            await one.request(ListGroupsRequest())
        elif self.kind == "producer":
            await one.send("t", b"value")
        else:
            await one.poll(timeout_ms=500)

    async def calls(self, one: Any) -> None:
        """Call until it raises: a session that isn't over yet is honest."""
        until = self.simulation.time() + LIMIT
        while self.simulation.time() < until:
            await self.call(one)
            await asyncio.sleep(self.random.uniform(0, 2))

    async def fails(self, call: Any) -> None:
        with pytest.raises(AuthenticationError) as raised:
            await call
        text = str(raised.value)
        assert "127.0.0.1" in text
        assert self.mechanism in text
        assert text.isprintable()
        assert PASSWORD not in text
        self.outcomes["offered" if "enabled: PLAIN" in text else "of alice" if "of 'alice'" in text else "?"] += 1

    async def no_further_login(self, server: HostileLogin) -> None:
        logins = server.logins
        await asyncio.sleep(60)
        assert server.logins == logins

    def check_tokens(self, server: HostileLogin) -> None:
        # At most the connections that were open at the same time have sent it a login.
        assert server.logins <= (1 if self.at_login else 4) or self.attack == HONEST
        heard = b"\n".join(server.tokens)
        assert PASSWORD.encode() not in heard
        assert base64.b64encode(PASSWORD.encode()) not in heard
        assert b"\0alice" not in heard
        if self.attack not in (*PROVED, HONEST):
            assert b"c=" not in heard


def run(seed: int) -> Session:
    """Run one seed."""
    session = Session(seed)
    session.run()
    return session


@in_blocks
def test_clients_believe_no_server_without_the_password(block: int, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(FIRST + block, FIRST + SEEDS // 8, BLOCKS):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "aiokproto"):
            try:
                session = run(seed)
            except BaseException as error:
                raise AssertionError(f"run({seed}): {error!r}") from error
        assert not any(PASSWORD in record.getMessage() for record in caplog.records)
        assert "?" not in session.outcomes


@pytest.mark.extended
def test_what_the_seeds_do() -> None:
    sessions = [run(seed) for seed in range(40)]
    outcomes = sum((session.outcomes for session in sessions), Counter[str]())
    assert {session.at_login for session in sessions} == {True, False}
    assert {session.kind for session in sessions} == {"client", "producer", "consumer"}
    assert set(outcomes) == {"offered", "of alice"}, outcomes
