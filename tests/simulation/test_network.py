"""Connections in memory behave like connections over sockets, even when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.simulation import Link, Simulation, host
from aiokproto.simulation.transport import HIGH_WATER, WINDOW

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PORT = 9092


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def simulate(
    program: Callable[[Simulation, Link], Awaitable[None]],
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = echo,
    seed: int = 0,
) -> Simulation:
    simulation = Simulation(seed)

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", PORT)
        await program(simulation, simulation.network.link("client", ("127.0.0.1", PORT)))
        server.close()

    simulation.run(main())
    return simulation


async def connect() -> Streams:
    return await asyncio.open_connection("localhost", PORT)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_in_their_order(seed: int) -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        reader, writer = await connect()
        sent = bytes(range(256)) * 4096
        writer.write(sent)
        writer.write_eof()
        assert await reader.read() == sent
        writer.close()

    simulate(main, seed=seed)


def test_a_connection_is_closed_after_it_has_written_its_end() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        _, writer = await connect()
        writer.write_eof()
        writer.close()
        await writer.wait_closed()

    simulate(main)


def test_latency_and_throughput() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        link.delay(0.1, 0.1)
        begun = simulation.time()
        reader, writer = await connect()
        assert simulation.time() - begun == pytest.approx(0.2, abs=0.01)
        begun = simulation.time()
        writer.write(b"x")
        await reader.readexactly(1)
        assert simulation.time() - begun == pytest.approx(0.2, abs=0.01)
        link.slow(100_000)
        begun = simulation.time()
        writer.write(bytes(100_000))
        await reader.readexactly(100_000)
        assert simulation.time() - begun == pytest.approx(2 + 0.2, rel=0.5)
        writer.close()

    simulate(main)


@pytest.mark.parametrize("bytes_per_second", [0, -1, float("nan")])
def test_a_throughput_that_is_not_positive_is_refused(bytes_per_second: float) -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        with pytest.raises(ConfigurationError, match=f"bytes_per_second={bytes_per_second}: must be positive"):
            link.slow(bytes_per_second)
        assert link.to_server.throughput == float("inf")

    simulate(main)


@pytest.mark.parametrize(("least", "most"), [(5, 1), (-1, 1), (float("nan"), 1), (0, float("inf"))])
def test_a_latency_that_is_not_a_range_is_refused(least: float, most: float) -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        before = link.to_server.latency
        with pytest.raises(ConfigurationError, match=f"least={least}, most={most}: must be finite"):
            link.delay(least, most)
        assert link.to_server.latency == link.to_client.latency == before

    simulate(main)


def test_a_port_without_a_listener_refuses_connections() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", PORT + 1)

    simulate(main)


def test_a_port_belongs_to_one_server() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        with pytest.raises(OSError, match="in use"):
            await asyncio.start_server(echo, "127.0.0.1", PORT)

    simulate(main)


def test_cut_links_break_connections_and_refuse_new_ones() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        reader, _ = await connect()
        link.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        with pytest.raises(ConnectionRefusedError):
            await connect()
        link.restore()
        (await connect())[1].close()

    simulate(main)


def test_a_silent_link_raises_no_error_and_delivers_its_data_when_it_ends() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        reader, writer = await connect()
        link.silence()
        writer.write(b"hello")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(5), 3600)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(connect(), 3600)
        link.restore()
        assert await reader.readexactly(5) == b"hello"
        writer.close()

    simulate(main)


def test_a_half_open_connection_looks_alive() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        reader, writer = await connect()
        link.silence(to_client=True, to_server=False)
        writer.write(b"stop")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(), 3600)
        link.restore()
        assert await asyncio.wait_for(reader.read(), 1) == b""
        writer.close()

    async def stop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.close()

    simulate(main, serve=stop)


def test_writing_to_a_closed_connection_is_a_reset() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        reader, writer = await connect()
        writer.write(b"x")
        assert await reader.read() == b""
        writer.write(b"y")
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            await writer.drain()

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    simulate(main, serve=close)


def test_a_receiver_that_does_not_read_fills_the_buffers() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        _, writer = await connect()
        writer.write(bytes(WINDOW + 2 * HIGH_WATER))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(writer.drain(), 3600)
        assert writer.transport.get_write_buffer_size() == pytest.approx(2 * HIGH_WATER, rel=1.1)
        writer.close()
        await asyncio.sleep(3600)
        assert link.connections, "what is written has to go before it closes"
        writer.transport.abort()
        await asyncio.sleep(1)
        assert not link.connections

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            await asyncio.sleep(100_000)
        finally:
            writer.close()

    simulate(main, serve=never_read)


def test_each_pair_of_hosts_has_its_own_link() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        async def ask() -> bytes:
            reader, writer = await connect()
            writer.write(b"x")
            found = await reader.readexactly(1)
            writer.close()
            return found

        link.silence()
        with host("another"):
            assert await asyncio.create_task(ask()) == b"x"
        assert len(simulation.network.links()) == 2
        assert len(simulation.network.links(client="another")) == 1

    simulate(main)


def test_a_link_shows_its_ends_its_connections_and_its_faults() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        assert repr(simulation.network.links()) == "[<Link client to 127.0.0.1:9092: 0 connections>]"
        _, writer = await connect()
        assert repr(link) == "<Link client to 127.0.0.1:9092: 1 connection>"
        link.silence(to_client=False)
        link.slow(1000)
        assert repr(link).endswith(": 1 connection, silent to server, 1000 bytes/s>")
        link.silence()
        assert repr(link).endswith(": 1 connection, silent to server and client, 1000 bytes/s>")
        link.restore()
        link.cut()
        assert repr(link).endswith(": 0 connections, new ones are refused, 1000 bytes/s>")
        writer.close()

    simulate(main)


def test_the_same_seed_gives_the_same_trace() -> None:
    async def main(simulation: Simulation, link: Link) -> None:
        reader, writer = await connect()
        writer.write(bytes(10_000))
        await reader.readexactly(10_000)
        writer.close()

    first, again, other = (simulate(main, seed=seed).trace for seed in (1, 1, 2))
    assert first.hash == again.hash
    assert first.last == again.last
    assert first.hash != other.hash
