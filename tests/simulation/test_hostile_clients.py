"""The embedded broker serves other clients while hostile ones send anything, slowly, at once, or not at all."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections import Counter
from random import Random
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster, Security
from aiokproto.broker.handlers import SERVED
from aiokproto.broker.server.listener import AUTHENTICATION_SECONDS
from aiokproto.codec import registry
from aiokproto.codec.frames import encode_request
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.errors import EncodeError
from aiokproto.simulation import Simulation
from tests.simulation.damage import random_message
from tests.simulation.seeds import BLOCKS, FIRST, SEEDS, in_blocks

IDLE = 60.0
LONG_TIMEOUT = 5.0
"""Virtual seconds within which the other clients are served."""

MAX_MEMORY = 128 << 20

# The purpose of these APIs is to change what other clients get.
_OF_OPERATORS = {
    registry.lookup(f"{name}Request").api_key  # type: ignore[attr-defined]
    for name in ("AlterConfigs", "IncrementalAlterConfigs", "AlterClientQuotas", "UpdateFeatures", "UnregisterBroker")
}
_SENT = sorted(SERVED.keys() - _OF_OPERATORS)


class HostileClient:
    """One connection that does what a seed says."""

    def __init__(self, random: Random, address: tuple[str, int], done: Counter[str]) -> None:
        self._random = random
        self._address = address
        self._done = done

    async def run(self) -> None:
        what = self._random.choice(
            [
                "requests",
                "requests",
                "requests",
                "flipped",
                "noise",
                "huge",
                "unfinished",
                "drip",
                "mute",
                "deaf",
                "pipeline",
            ]
        )
        self._done[what] += 1
        try:
            reader, writer = await asyncio.open_connection(*self._address)
        except ConnectionError:
            return
        try:
            await getattr(self, f"_{what}")(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            if self._random.random() < 0.5:
                writer.transport.abort()
            writer.close()

    def _request(self) -> bytes:
        random = self._random
        while True:
            key = random.choice(_SENT)
            kind = registry.request(key)
            versions = [version for version in SERVED[key] if version in kind.versions]
            try:
                return bytes(encode_request(random_message(random, kind), random.choice(versions), 1, "hostile"))
            # The version lacks a field that is set.
            except EncodeError:
                continue

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(self._random.randrange(1, 20)):
            writer.write(self._request())
            try:
                size = await asyncio.wait_for(reader.readexactly(4), 2)
                await reader.readexactly(int.from_bytes(size, "big"))
            except asyncio.TimeoutError:
                return

    async def _flipped(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(10):
            frame = bytearray(self._request())
            for _ in range(self._random.randrange(1, 5)):
                frame[self._random.randrange(4, len(frame))] = self._random.randrange(256)
            writer.write(frame)
        await self._read(reader)

    async def _noise(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._random.randbytes(self._random.randrange(1, 10_000)))
        await self._read(reader)

    async def _huge(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._random.choice([(1 << 31) - 1, 100 << 20, 600 << 10, 1 << 20]).to_bytes(4, "big"))
        await self._read(reader)

    async def _unfinished(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = self._request()
        writer.write(frame[: self._random.randrange(len(frame))])
        if self._random.random() < 0.5:
            writer.write_eof()
        await self._read(reader)

    async def _drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in self._request():
            writer.write(bytes((byte,)))
            await asyncio.sleep(1)
            if reader.at_eof():
                return

    async def _mute(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def _deaf(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(200):
            writer.write(bytes(encode_request(ApiVersionsRequest(), 3, 1, "hostile")))
        await asyncio.sleep(self._random.uniform(1, 200))

    async def _pipeline(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(self._random.randrange(50)):
            writer.write(self._request())
        await self._read(reader)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            await asyncio.wait_for(reader.read(), self._random.uniform(0, 100))
        except asyncio.TimeoutError:
            pass


def run(seed: int) -> Counter[str]:
    """Run one seed, and return how often its clients did each thing."""
    random, simulation, done = Random(seed), Simulation(seed), Counter[str]()
    unseen: list[dict[str, Any]] = []
    simulation.loop.set_exception_handler(lambda loop, context: unseen.append(context))
    config: dict[str, Any] = {
        "connections.max.idle.ms": IDLE * 1000,
        "max.connections.per.ip": random.choice([8, 1000]),
    }

    async def main() -> None:
        security = random.choice([Security(), Security("SASL_PLAINTEXT", users={"alice": "secret"})])
        options: dict[str, Any] = {}
        if security.sasl:
            options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
            options |= {"sasl_username": "alice", "sasl_password": "secret"}
        async with Cluster(1, security=security, config=config) as cluster:
            await cluster.create_topic("honest", partitions=1)
            options["bootstrap_servers"] = cluster.bootstrap_servers
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            async with Producer(**options) as producer, Consumer(**options, auto_offset_reset="earliest") as consumer:
                consumer.assign(("honest", 0))
                await producer.send("honest", b"first")
                clients = [HostileClient(random, (host, int(port)), done) for _ in range(random.randrange(1, 12))]
                attacks = [asyncio.ensure_future(client.run()) for client in clients]
                for number in range(10):
                    begun = simulation.time()
                    await producer.send("honest", b"%d" % number)
                    await anext(consumer)
                    assert simulation.time() - begun < LONG_TIMEOUT
                    await asyncio.sleep(random.uniform(0, 20))
                await asyncio.gather(*attacks)
            # The broker closes idle connections, and connections that don't read.
            await asyncio.sleep(2 * IDLE)
            server = cluster._servers[0]
            assert not server._connections

    simulation.run(main())
    assert not unseen
    return done


@in_blocks
def test_the_broker_serves_others_while_clients_are_hostile(block: int, caplog: pytest.LogCaptureFixture) -> None:
    """No handler fails in a way that is a defect."""
    for seed in range(FIRST + block, FIRST + SEEDS // 4, BLOCKS):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            try:
                run(seed)
            except Exception as error:
                raise AssertionError(f"run({seed}): {error}") from error
        assert not caplog.records, f"run({seed}): {caplog.text}"


@pytest.mark.extended
def test_what_the_seeds_do() -> None:
    done = sum((run(seed) for seed in range(20)), Counter[str]())
    assert len(done) == 9, done


@pytest.mark.parametrize("seeds", [range(1, 4), pytest.param(range(4, 10), marks=pytest.mark.extended)])
def test_hostile_clients_take_little_memory(seeds: range) -> None:
    run(0)
    tracemalloc.start()
    try:
        for seed in seeds:
            run(seed)
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
    finally:
        tracemalloc.stop()


def test_a_client_that_does_not_authenticate_is_disconnected() -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1, security=Security("SASL_PLAINTEXT", users={"alice": "secret"})) as cluster:
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            # Every client may send this request.
            writer.write(bytes(encode_request(ApiVersionsRequest(), 0, 1, "hostile")))
            assert await reader.read()
            writer.close()
            assert simulation.time() == pytest.approx(AUTHENTICATION_SECONDS, abs=2)

    simulation.run(main())
