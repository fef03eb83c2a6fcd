"""How a node lets clients in: TLS, how many, how often, and how long they may be silent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

from aiokproto.broker.clock import Clock, sleep
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.quotas.quotas import Quotas
from aiokproto.broker.request_context import CloseConnection
from aiokproto.broker.security.guard import Guard
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.server.client_connection import ClientConnection

TLS_HANDSHAKE_SECONDS = 30.0


class Listener:
    """One node's door.

    Attributes:
        tls: What connections are encrypted with; None: nothing.
    """

    def __init__(
        self, guard: Guard, quotas: Quotas, tls: SSLContext | None, options: BrokerOptions, clock: Clock
    ) -> None:
        self.tls = tls
        self._guard = guard
        self._quotas = quotas
        self._clock = clock
        self._max_frame = options.number("socket.request.max.bytes")
        self._max_before_authentication = min(self._max_frame, options.number("sasl.server.max.receive.size"))
        self._slots = asyncio.Semaphore(options.number("max.connections"))
        self._per_address = options.number("max.connections.per.ip")
        self._max_idle = options.seconds("connections.max.idle.ms")
        self._addresses: Counter[str] = Counter()
        # When each began to wait for a request; who has waited for longest comes first.
        self._silent: dict[ClientConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def close(self) -> None:
        """Stop looking for who is silent."""
        if self._timer is not None:
            self._timer.cancel()

    @asynccontextmanager
    async def admit(self, client: ClientConnection) -> AsyncIterator[ClientSession]:
        """Let a client in; with ``max.connections`` there, it waits until one of them leaves.

        Raises:
            Hangup: It is one too many from its address, or came too soon.
        """
        peer = client.info("peername")
        host = str(peer[0]) if peer else "?"
        pause = self._quotas.connect(host, self._clock.time()) if self._guard.limits else 0.0
        if pause:
            await sleep(self._clock, pause)
            raise CloseConnection(f"connections come faster than the quota of {host} permits")
        if self._addresses[host] >= self._per_address:
            raise CloseConnection(f"{host} has {self._per_address} connections, the limit (max.connections.per.ip)")
        self._addresses[host] += 1
        try:
            async with self._slots:
                yield self._guard.connect(host, client.info("ssl_object"))
        finally:
            self._silent.pop(client, None)
            self._addresses[host] -= 1
            if not self._addresses[host]:
                del self._addresses[host]

    async def receive(self, client: ClientConnection, connection: ClientSession) -> bytes | memoryview:
        """The client's next frame, without its length.

        Raises:
            Hangup: It is too large.
            EOFError: The client is gone, or was silent for too long.
            ConnectionError: The connection is lost.
        """
        self._silent[client] = asyncio.get_running_loop().time()
        if self._timer is None:
            self._look_again()
        try:
            size = await client.size()
            limit = self._max_frame if connection.proven else self._max_before_authentication
            if not 0 <= size <= limit:
                option = "socket.request.max.bytes" if connection.proven else "sasl.server.max.receive.size"
                raise CloseConnection(f"a frame of {size} bytes, the limit ({option}) is {limit}")
            return await client.frame(size)
        finally:
            self._silent.pop(client, None)

    async def pause(self, seconds: float) -> None:
        """Let a client wait that has used too much: nothing is read from it meanwhile."""
        await sleep(self._clock, seconds)

    def _look_again(self) -> None:
        # In the system's time, whatever the broker's clock shows: so does the client reckon.
        loop = asyncio.get_running_loop()
        waiting = next((since for client, since in self._silent.items() if not client.closing), loop.time())
        self._due = waiting + self._max_idle
        self._timer = loop.call_at(self._due, self._close_silent)

    def _close_silent(self) -> None:
        # The loop may call a timer early by its clock's resolution.
        now = max(asyncio.get_running_loop().time(), self._due)
        for client, since in list(self._silent.items()):
            if since + self._max_idle > now:
                break
            client.close()
        self._look_again()
