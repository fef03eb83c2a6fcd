"""An in-memory network: servers listen at addresses, clients connect from hosts, and links between them can fail."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any

from aiokproto.simulation.link import Address, Direction, Link
from aiokproto.simulation.transport import SimulatedTransport

if TYPE_CHECKING:
    from aiokproto.simulation.trace import Trace

Factory = Callable[[], asyncio.BaseProtocol]

FIRST_PORT = 49152

_host: ContextVar[str] = ContextVar("aiokproto_simulated_host", default="client")


@contextmanager
def host(name: str) -> Iterator[None]:
    """Run the block, and the tasks that it starts, on a different simulated host. Its connections have their own
    links."""
    token = _host.set(name)
    try:
        yield
    finally:
        _host.reset(token)


class Network:
    """All links and servers of a simulation."""

    def __init__(self, random: Random, trace: Trace, now: Callable[[], float]) -> None:
        self._random = random
        self._trace = trace
        self._now = now
        self._links: dict[tuple[str, Address], Link] = {}
        self._servers: dict[Address, SimulatedServer] = {}
        self._next_port = FIRST_PORT

    def link(self, client: str, server: Address) -> Link:
        """Return the link from a client's host (``"client"`` outside of :func:`host`) to a server's address."""
        key = (client, server)
        if key not in self._links:
            self._links[key] = Link(client, server, self._random, self._now)
        return self._links[key]

    def links(self, client: str | None = None, server: Address | None = None) -> list[Link]:
        """Return the links used so far: all of them, or only those from a client's host, or only those to a server."""
        return [
            link
            for (from_host, to_server), link in self._links.items()
            if client in (None, from_host) and server in (None, to_server)
        ]

    async def resolve(self, name: str) -> str:
        """Resolve a host name. Names are addresses here."""
        return "127.0.0.1" if name == "localhost" else name

    def listen(self, loop: asyncio.AbstractEventLoop, factory: Factory, name: str, port: int) -> SimulatedServer:
        """Listen at an address. Port 0 selects a free port."""
        address = ("127.0.0.1" if name == "localhost" else name, port or self._free_port())
        if address in self._servers:
            raise OSError(errno.EADDRINUSE, f"{address[0]}:{address[1]} is in use")
        server = SimulatedServer(loop, factory, address, self._servers)
        self._servers[address] = server
        return server

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    async def connect(
        self, loop: asyncio.AbstractEventLoop, factory: Factory, name: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a server, from the host of the running task."""
        address = (await self.resolve(name), port)
        origin = _host.get()
        link = self.link(origin, address)
        await self._travel(loop, link.to_server)
        server = self._servers.get(address)
        reachable = server is not None and link.reachable
        await self._travel(loop, link.to_client)
        if server is None or not reachable or not server.is_serving():
            self._trace.note("refuse", f"{origin} to {address}")
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._trace.note("connect", f"{origin} to {address}")
        here: Address = (origin, self._free_port())
        protocol, accepted = factory(), server.accept()
        client = self._end(loop, protocol, link, link.to_server, here, address)
        other = self._end(loop, accepted, link, link.to_client, address, here)
        client.peer, other.peer = other, client
        other.start()
        client.start()
        return client, protocol

    async def _travel(self, loop: asyncio.AbstractEventLoop, direction: Direction) -> None:
        arrived: asyncio.Future[None] = loop.create_future()

        def arrive() -> None:
            if not arrived.done():
                arrived.set_result(None)

        loop.call_at(direction.arrival(0, 0.0), direction.deliver, arrive)
        await arrived

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: Any,
        link: Link,
        direction: Direction,
        here: Address,
        there: Address,
    ) -> SimulatedTransport:
        extra = {"sockname": here, "peername": there}
        return SimulatedTransport(loop, protocol, link, direction, self._random, self._trace, extra)


class SimulatedServer(asyncio.AbstractServer):
    """A server, as ``create_server`` returns it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: Factory,
        address: Address,
        servers: dict[Address, SimulatedServer],
    ) -> None:
        self._loop = loop
        self._factory = factory
        self._address = address
        self._servers = servers

    @property
    def sockets(self) -> tuple[SimulatedSocket, ...]:
        """Stand-ins for the listening sockets. They only have addresses."""
        return (SimulatedSocket(self._address),)

    def accept(self) -> asyncio.BaseProtocol:
        """Create the protocol of a new connection."""
        return self._factory()

    def is_serving(self) -> bool:
        return self._servers.get(self._address) is self

    def close(self) -> None:
        """Stop listening. Connections stay open."""
        if self.is_serving():
            del self._servers[self._address]

    async def wait_closed(self) -> None:
        pass

    async def start_serving(self) -> None:
        pass

    async def serve_forever(self) -> None:
        await self._loop.create_future()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop


class SimulatedSocket:
    """A stand-in for a listening socket. It only has an address.

    Attributes:
        family: AF_UNSPEC: this isn't a socket of the operating system.
    """

    family = socket.AF_UNSPEC

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address
