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

# asyncio's default is a minute. A client that connects but doesn't send anything must not hold a socket for that long.
TLS_HANDSHAKE_SECONDS = 30.0

AUTHENTICATION_SECONDS = 30.0
"""How long a client may take to authenticate once its connection has been accepted and TLS is set up."""

SLOT_SECONDS = 90.0
"""How long a connection waits for a slot if ``max.connections`` is reached. The broker doesn't read from it in the
meantime, so it wouldn't notice that the client has closed the connection or has died. It's more than TLS and
authentication of another connection take."""

LOGIN_MEMORY = 16 << 20
"""Limit on the total size of the frames being received from clients that haven't authenticated yet, in bytes. Anyone
can announce a frame and make the broker allocate memory for it. Additional frames have to wait."""

MAX_WAITING = 128
"""How many sockets may wait for a connection slot (``max.connections``), or for their throttle time to end: the usual
size of a listen backlog. Kafka stops accepting instead. The broker doesn't read from waiting sockets, so it doesn't
notice that a client has closed one, and the socket keeps its file descriptor."""

SMALL_LOGIN = 1 << 16
"""Frames up to this size don't count towards :data:`LOGIN_MEMORY`, so logins don't have to wait for clients that
announce more than they send."""


class RequestMemory:
    """The memory for requests that are being received or served (``queued.max.request.bytes``). Connections wait for it
    in order.

    As in Kafka's ``SimpleMemoryPool``, a request is received as soon as any memory is left, even if it needs more than
    that. Otherwise a request larger than the limit would wait forever.

    Args:
        limit: The limit in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, size: int) -> None:
        """Take ``size`` bytes as soon as any bytes are left. Cancelling gives up the place in the queue."""
        if self._waiting or self._used >= self._limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # If it was already this request's turn, pass the turn on.
                self._wake_next()
                raise
        self._used += size
        self._wake_next()

    def release(self, size: int) -> None:
        """Give back ``size`` bytes."""
        self._used -= size
        self._wake_next()

    def _wake_next(self) -> None:
        # Wake only one request: it must take its bytes before the next one may check.
        while self._waiting and self._used < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class Listener:
    """The connection policy of one node.

    Attributes:
        tls: The TLS context of the connections, or None if they don't use TLS.
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
        # A client that hasn't authenticated yet must not make the broker allocate 100 MB (CVE-2022-34917).
        self._max_unauthenticated_frame = min(self._max_frame, options.number("sasl.server.max.receive.size"))
        self._max_connections = options.number("max.connections")
        self._slots = asyncio.Semaphore(self._max_connections)
        self._waiting = 0
        self._per_address = options.number("max.connections.per.ip")
        self._max_idle = options.seconds("connections.max.idle.ms")
        memory = options.number("queued.max.request.bytes")
        # There is no limit by default, so this is None and nothing is counted.
        self._memory = RequestMemory(memory) if memory > 0 else None
        self._logins = RequestMemory(LOGIN_MEMORY)
        self._addresses: Counter[str] = Counter()
        # When the broker started waiting for each client, in order: the client that has been idle the longest comes
        # first.
        self._idle_since: dict[ClientConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle_check_at = 0.0

    def close(self) -> None:
        """Stop closing idle connections."""
        if self._timer is not None:
            self._timer.cancel()

    @asynccontextmanager
    async def accept(self, client: ClientConnection) -> AsyncIterator[ClientSession]:
        """Accept a connection, before its TLS handshake.

        At ``max.connections``, the connection waits, unread, until another connection is closed, but for at most
        :data:`SLOT_SECONDS`.

        Raises:
            CloseConnection: The address has too many connections (``max.connections.per.ip``) or opens them faster than
                its quota permits, or no other connection was closed in time (``max.connections``).
            ConnectionError: The TLS handshake fails.
        """
        peer = client.info("peername")
        host = str(peer[0]) if peer else "?"
        throttle = self._quotas.record_connection(host, self._clock.time()) if self._security.client_quotas else 0.0
        # Like Kafka's ConnectionQuotas, reject these immediately, but make connections above max.connections wait.
        if self._addresses[host] >= self._per_address:
            raise CloseConnection(
                f"{host} has {counted(self._per_address, 'connection')}, the limit (max.connections.per.ip)"
            )
        # Count the connection before it waits for anything. Otherwise one address could hold any number of waiting
        # sockets.
        self._addresses[host] += 1
        try:
            await self._wait_for_slot(host, throttle)
            try:
                if self.tls is not None:
                    await client.start_tls(self.tls, TLS_HANDSHAKE_SECONDS)
                # The session needs the client certificate, so the handshake comes first.
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
                # Like Kafka, keep the socket open for the throttle time (KIP-612): if it was closed immediately,
                # clients would reconnect immediately.
                await sleep(self._clock, throttle)
                raise CloseConnection(
                    f"{host} opens connections faster than its quota connection_creation_rate permits"
                )
            async with timeout(SLOT_SECONDS):
                await self._slots.acquire()
        # asyncio.TimeoutError isn't the built-in class before Python 3.11.
        except asyncio.TimeoutError:
            raise CloseConnection(
                f"the broker has {counted(self._max_connections, 'connection')}, the limit (max.connections), and"
                f" its turn has not come within {SLOT_SECONDS:g} s"
            ) from None
        finally:
            self._waiting -= 1

    async def receive(self, client: ClientConnection, connection: ClientSession) -> bytes | memoryview:
        """Return the connection's next request frame, without its length. Always pass the frame to :meth:`served`
        afterwards.

        Raises:
            CloseConnection: The frame is larger than the limit.
            EOFError: The client closed the connection, or it was idle for ``connections.max.idle.ms``.
            ConnectionError: The connection is lost.
        """
        self._start_idle_time(client)
        taken = login = 0
        try:
            size = await client.read_size()
            # The limit changes once a connection is authenticated, so look it up for each frame.
            limit = self._max_frame if connection.authenticated else self._max_unauthenticated_frame
            # Check the size before allocating memory. A negative size is another protocol, such as TLS or HTTP.
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
            # A connection isn't idle while its request is being served, or its Fetch is waiting.
            self._idle_since.pop(client, None)
            if self._memory is not None:
                self._memory.release(taken)

    def served(self, frame: bytes | memoryview) -> None:
        """Give back the memory of a frame that :meth:`receive` returned."""
        if self._memory is not None:
            self._memory.release(len(frame))

    async def send(self, client: ClientConnection, response: bytes | bytearray) -> None:
        """Send a response. A client that doesn't read it is idle. Raises the same errors as :meth:`receive`."""
        self._start_idle_time(client)
        try:
            await client.send(response)
        finally:
            self._idle_since.pop(client, None)

    def _start_idle_time(self, client: ClientConnection) -> None:
        # The entry goes to the end of the dict. That keeps the dict ordered, so only its first entries have to be
        # checked.
        self._idle_since[client] = asyncio.get_running_loop().time()
        if self._timer is None:
            self._schedule_idle_check()

    async def throttle(self, seconds: float) -> None:
        """Wait for the throttle time. The caller doesn't read from the connection until this returns (KIP-219)."""
        await sleep(self._clock, seconds)

    def _schedule_idle_check(self) -> None:
        # Use the event loop's clock even with a VirtualClock, because the client measures its own idle time in real
        # time.
        loop = asyncio.get_running_loop()
        since = next((since for client, since in self._idle_since.items() if not client.closing), loop.time())
        self._idle_check_at = since + self._max_idle
        self._timer = loop.call_at(self._idle_check_at, self._close_idle)

    def _close_idle(self) -> None:
        # The loop may call a timer slightly early (by its clock's resolution). Without max(), the check would spin.
        now = max(asyncio.get_running_loop().time(), self._idle_check_at)
        for client, since in list(self._idle_since.items()):
            # The remaining clients have been idle for less time.
            if since + self._max_idle > now:
                break
            client.close()
        self._schedule_idle_check()


def _close_unless(client: ClientConnection, session: ClientSession) -> None:
    """Close a connection unless it has authenticated."""
    if not session.authenticated:
        client.close()
