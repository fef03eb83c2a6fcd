"""Accepts the connections of one node: TLS, connection limits and rates, frame sizes, and idle connections."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

from aiokproto.broker.clock import Clock, sleep
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager
from aiokproto.broker.request_context import CloseConnection
from aiokproto.broker.security.security_state import SecurityState
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.server.client_connection import ClientConnection
from aiokproto.runtime.timeouts import timeout
from aiokproto.texts import counted

# A client that connects and sends nothing must not hold a socket for asyncio's default of a minute.
TLS_HANDSHAKE_SECONDS = 30.0

AUTHENTICATION_SECONDS = 30.0
"""How long a client may take to authenticate, from the time when its connection is accepted and TLS is set up."""

SLOT_SECONDS = 90.0
"""How long a connection waits for one of ``max.connections``. The broker reads nothing from it, so it would not notice
that the client has closed it or is gone. TLS and login of the connection before take less."""

LOGIN_MEMORY = 16 << 20
"""Bytes of all frames that are being received from clients which have not authenticated yet: everyone can announce one,
and memory is allocated for it. Longer ones wait."""

MAX_WAITING = 128
"""Sockets that wait for one of ``max.connections``, or for the end of their quota: as many as a listen backlog usually
has. Kafka stops accepting instead. The broker does not read from a socket that waits, so it does not notice that the
client has closed it, and the socket keeps its file descriptor."""

SMALL_LOGIN = 1 << 16
"""Longest frame in bytes that needs none of it: logins do not wait for those who announce more than they send."""


class RequestMemory:
    """A budget of bytes, for which connections wait in order.

    As in Kafka's ``SimpleMemoryPool``, a request is received while any of it is left, and may take more than that: one
    that is larger than the budget must not wait for ever.

    Args:
        limit: In bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, size: int) -> None:
        """Take so many bytes, once any are left. Cancelling gives up the place."""
        if self._waiting or self._used >= self._limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Its turn had come, and is the next one's now.
                self._begin_next()
                raise
        self._used += size
        self._begin_next()

    def release(self, size: int) -> None:
        """Give back what was taken."""
        self._used -= size
        self._begin_next()

    def _begin_next(self) -> None:
        # One only: it takes its bytes before another one may look.
        while self._waiting and self._used < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class Listener:
    """The connection policy of one node.

    Attributes:
        tls: The TLS context of its connections; None without TLS.
    """

    def __init__(
        self,
        security: SecurityState,
        quotas: ClientQuotaManager,
        tls: SSLContext | None,
        options: BrokerOptions,
        clock: Clock,
    ) -> None:
        self.tls = tls
        self._security = security
        self._quotas = quotas
        self._clock = clock
        self._max_frame = options.number("socket.request.max.bytes")
        # A client that has not authenticated yet must not make the broker allocate 100 MB (CVE-2022-34917).
        self._max_unauthenticated_frame = min(self._max_frame, options.number("sasl.server.max.receive.size"))
        self._most = options.number("max.connections")
        self._slots = asyncio.Semaphore(self._most)
        self._waiting = 0
        self._per_address = options.number("max.connections.per.ip")
        self._max_idle = options.seconds("connections.max.idle.ms")
        memory = options.number("queued.max.request.bytes")
        # None in the usual broker, which then counts nothing.
        self._memory = RequestMemory(memory) if memory > 0 else None
        self._logins = RequestMemory(LOGIN_MEMORY)
        self._addresses: Counter[str] = Counter()
        # When each connection began to wait for its client, in that order: the longest idle one comes first.
        self._idle_since: dict[ClientConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle_check_at = 0.0

    def close(self) -> None:
        """Stop closing idle connections."""
        if self._timer is not None:
            self._timer.cancel()

    @asynccontextmanager
    async def accept(self, client: ClientConnection) -> AsyncIterator[ClientSession]:
        """Accept a connection, before its TLS handshake. At ``max.connections`` it waits, unread, until another one is
        closed, but not for longer than :data:`SLOT_SECONDS`.

        Raises:
            CloseConnection: Its address has too many connections (``max.connections.per.ip``), or opens them faster
                than its quota permits; or no other one was closed (``max.connections``).
            ConnectionError: The TLS handshake fails.
        """
        peer = client.info("peername")
        host = str(peer[0]) if peer else "?"
        throttle = self._quotas.record_connection(host, self._clock.time()) if self._security.client_quotas else 0.0
        # Kafka's ConnectionQuotas rejects these at once, and makes connections above max.connections wait.
        if self._addresses[host] >= self._per_address:
            raise CloseConnection(
                f"{host} has {counted(self._per_address, 'connection')}, the limit (max.connections.per.ip)"
            )
        # Counted before it waits for anything: otherwise one address could hold any number of sockets that wait.
        self._addresses[host] += 1
        try:
            await self._wait_for_slot(host, throttle)
            try:
                if self.tls is not None:
                    await client.start_tls(self.tls, TLS_HANDSHAKE_SECONDS)
                # After the handshake, so that the client certificate is known.
                session = self._security.connect(host, client.info("ssl_object"))
                late = asyncio.get_running_loop().call_later(AUTHENTICATION_SECONDS, _close_unless, client, session)
                try:
                    yield session
                finally:
                    late.cancel()
            finally:
                self._slots.release()
        finally:
            self._idle_since.pop(client, None)
            self._addresses[host] -= 1
            if not self._addresses[host]:
                del self._addresses[host]

    async def _wait_for_slot(self, host: str, throttle: float) -> None:
        if (throttle or self._slots.locked()) and self._waiting >= MAX_WAITING:
            raise CloseConnection(f"{counted(MAX_WAITING, 'connection')} wait for others (max.connections, quotas)")
        self._waiting += 1
        try:
            if throttle:
                # Kafka keeps the socket open for the throttle time (KIP-612): closing it at once would make clients
                # reconnect at once.
                await sleep(self._clock, throttle)
                raise CloseConnection(
                    f"{host} opens connections faster than its quota connection_creation_rate permits"
                )
            async with timeout(SLOT_SECONDS):
                await self._slots.acquire()
        # Another class than the built-in one before Python 3.11.
        except asyncio.TimeoutError:
            raise CloseConnection(
                f"the broker has {counted(self._most, 'connection')}, the limit (max.connections), and its turn has not"
                f" come within {SLOT_SECONDS:g} s"
            ) from None
        finally:
            self._waiting -= 1

    async def receive(self, client: ClientConnection, connection: ClientSession) -> bytes | memoryview:
        """Return the connection's next request frame, without its length. Pass it to :meth:`served` in any case.

        Raises:
            CloseConnection: The frame is larger than the limit.
            EOFError: The client closed the connection, or it was idle for ``connections.max.idle.ms``.
            ConnectionError: The connection is lost.
        """
        self._begin_waiting(client)
        taken = login = 0
        try:
            size = await client.read_size()
            # For each frame anew: the limit changes in the middle of a connection.
            limit = self._max_frame if connection.authenticated else self._max_unauthenticated_frame
            # Before any memory is allocated for it. A negative size is another protocol, such as TLS or HTTP.
            if not 0 <= size <= limit:
                option = "socket.request.max.bytes" if connection.authenticated else "sasl.server.max.receive.size"
                raise CloseConnection(f"a frame of {size} bytes, the limit ({option}) is {limit}")
            if not connection.authenticated and size > SMALL_LOGIN:
                await self._logins.acquire(size)
                login = size
            if self._memory is not None:
                await self._memory.acquire(size)
                taken = size
            frame = await client.read_frame(size)
            taken = 0
            return frame
        finally:
            if login:
                self._logins.release(login)
            # A request that is being served, or a Fetch that waits, is not idle.
            self._idle_since.pop(client, None)
            if self._memory is not None:
                self._memory.release(taken)

    def served(self, frame: bytes | memoryview) -> None:
        """Give back the memory of a frame that :meth:`receive` has returned."""
        if self._memory is not None:
            self._memory.release(len(frame))

    async def send(self, client: ClientConnection, response: bytes | bytearray) -> None:
        """Send a response. A client that does not read it is idle. Raises like :meth:`receive`."""
        self._begin_waiting(client)
        try:
            await client.send(response)
        finally:
            self._idle_since.pop(client, None)

    def _begin_waiting(self, client: ClientConnection) -> None:
        # At the end of the dict, which keeps it ordered: only its first entries have to be looked at.
        self._idle_since[client] = asyncio.get_running_loop().time()
        if self._timer is None:
            self._schedule_idle_check()

    async def throttle(self, seconds: float) -> None:
        """Return after the throttle time; the caller reads nothing from the connection until then (KIP-219)."""
        await sleep(self._clock, seconds)

    def _schedule_idle_check(self) -> None:
        # On the event loop's clock, also under a VirtualClock: the client measures its own idle time in real time.
        loop = asyncio.get_running_loop()
        since = next((since for client, since in self._idle_since.items() if not client.closing), loop.time())
        self._idle_check_at = since + self._max_idle
        self._timer = loop.call_at(self._idle_check_at, self._close_idle)

    def _close_idle(self) -> None:
        # The loop calls a timer up to its clock's resolution early: without max() the check would spin.
        now = max(asyncio.get_running_loop().time(), self._idle_check_at)
        for client, since in list(self._idle_since.items()):
            # The others began to wait later.
            if since + self._max_idle > now:
                break
            client.close()
        self._schedule_idle_check()


def _close_unless(client: ClientConnection, session: ClientSession) -> None:
    """Close a connection that is still not authenticated."""
    if not session.authenticated:
        client.close()
