"""The socket server of one node: one task per connection, one request at a time (Kafka's SocketServer)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import Any

from aiokproto.broker.control.network import Network
from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.request_context import CloseConnection
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.server.client_connection import ClientConnection
from aiokproto.broker.server.dispatch import Dispatcher
from aiokproto.broker.server.listener import Listener
from aiokproto.runtime import create_task
from aiokproto.security.shown import shown
from aiokproto.texts import counted

MAX_LOGGED = 10
WINDOW = 10.0
"""At most MAX_LOGGED lines are logged in this many seconds: anyone can cause a line, even without a login."""

_LONGEST = 500
"""Maximum length of a logged reason, in characters. It can contain what the client has sent."""

log = logging.getLogger("aiokproto.broker")


class RefusalLog:
    """Logs which connections a node closes, and why. Above a limit, it only counts them, and logs the number.

    Args:
        node_id: The node.
    """

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._closed = 0
        self._end: asyncio.TimerHandle | None = None

    def warn(self, peer: object, why: str, bug: Exception | None = None) -> None:
        """Log that a connection is closed, as a warning, or as an error with a traceback if the reason is a bug."""
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(WINDOW, self.report)
        self._closed += 1
        if self._closed <= MAX_LOGGED:
            level = logging.WARNING if bug is None else logging.ERROR
            text = "broker %d closes the connection from %s: %s"
            log.log(level, text, self._node_id, peer, shown(why, _LONGEST), exc_info=bug)

    def report(self) -> None:
        """End the window, and log how many connections were left out."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._closed > MAX_LOGGED:
            more = counted(self._closed - MAX_LOGGED, "more connection")
            log.warning("broker %d closed %s within %g s", self._node_id, more, WINDOW)
        self._closed = 0


class ReservedPort:
    """Reserves a port with a socket that is bound to it but doesn't listen, so connections are refused.

    Otherwise, the operating system could give the port to another process, or to a client as the local port of its own
    reconnect attempt. TCP would then connect that socket to itself.
    """

    def __init__(self) -> None:
        self._held: socket.socket | None = None

    def hold(self, family: int, address: Any) -> None:
        """Bind to the address of a closed server socket. If that fails, the port isn't reserved."""
        # A node reserves at most one port.
        self.release()
        if family == socket.AF_UNSPEC:
            # The simulated network never assigns a port twice.
            return
        held = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":
                # Connections of the stopped node may still be in TIME_WAIT.
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Like asyncio's servers, bind to IPv6 only. Otherwise the port would be taken for IPv4 as well.
            if family == socket.AF_INET6:
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held.bind(address)
        # Another process was faster. start() will fail, with an error that names the address.
        except OSError:
            held.close()
        else:
            self._held = held

    def take(self) -> socket.socket | None:
        """Return the bound socket, if the port is reserved. The caller then owns the socket."""
        held, self._held = self._held, None
        return held

    def release(self) -> None:
        """Release the port."""
        if self._held is not None:
            self._held.close()
            self._held = None


class TlsAcceptor(asyncio.Protocol):
    """Takes the socket out of a new connection, unread, before its TLS handshake.

    ``create_server(ssl=…)`` hands a connection over only after its handshake, so clients that don't start one wouldn't
    be counted. ``start_tls()`` doesn't help either: it needs a transport that hasn't read anything yet, and uvloop's
    transports can't be stopped in time.
    """

    def __init__(self, server: SocketServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made: Any = transport
        known = made.get_extra_info("socket")
        try:
            # Make a copy, because the transport closes its own socket.
            copied = socket.fromfd(known.fileno(), known.family, known.type, known.proto)
        # If the process has run out of file descriptors, drop the connection, as accept() would.
        except OSError:
            copied = None
        peer = made.get_extra_info("peername")
        made.abort()
        if copied is not None:
            copied.setblocking(False)
            self._server.accept(ClientConnection(None, (copied, peer)))


class SocketServer:
    """Listens for a node, and serves its connections.

    As in Kafka, the requests of a connection are served one at a time: pipelined requests wait in the socket, and a
    long poll delays only its own connection. This keeps responses in request order, as the protocol requires.
    """

    def __init__(
        self, node: Node, port: ReservedPort, dispatcher: Dispatcher, listener: Listener, network: Network
    ) -> None:
        self._node = node
        self._port = port
        self._dispatcher = dispatcher
        self._listener = listener
        self._network = network
        self._refusals = RefusalLog(node.node_id)
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], ClientConnection] = {}

    async def start(self) -> None:
        """Start listening. If the port is 0, a free port is picked, and the node keeps it."""
        node = self._node
        reserved = self._port.take()
        address: dict[str, Any] = {"sock": reserved}
        if reserved is None:
            address = {"host": node.listens or node.host, "port": node.port}
        try:
            self._server = await asyncio.get_running_loop().create_server(self._protocol, **address)
        # The socket is ours until a server takes it over, so close it, even if cancelled.
        except BaseException:
            if reserved is not None:
                reserved.close()
            raise
        # Metadata contains the port, so it must be known before the node is registered.
        node.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and close all connections, including those with waiting requests. After that, the port is
        reserved."""
        if self._server is None:
            return
        server, self._server = self._server, None
        addresses = [(listening.family, listening.getsockname()) for listening in server.sockets]
        server.close()
        # If a host name has several addresses, each may have a different port. Those ports aren't reserved.
        if len(addresses) == 1:
            self._port.hold(*addresses[0])
        self._listener.close()
        self._refusals.report()
        for task, client in self._connections.items():
            task.cancel()
            # Drop unsent responses: to its clients, a stopping node looks like one that lost power.
            client.abort()
        if self._connections:
            # gather() would stop waiting at the first error and leave the other tasks running. Each task reports its
            # own error.
            await asyncio.wait(list(self._connections))
        await server.wait_closed()

    def _protocol(self) -> asyncio.BaseProtocol:
        if self._listener.tls is None:
            return ClientConnection(self)
        return TlsAcceptor(self)

    def accept(self, client: ClientConnection) -> None:
        """Serve a new connection in its own task."""
        # The event loop may deliver a connection that it accepted just before close().
        if self._server is None:
            client.abort()
            return
        task = create_task(self._serve(client))
        self._connections[task] = client
        # asyncio holds tasks only weakly, so this reference also keeps the task alive.
        task.add_done_callback(self._connections.pop)

    async def _serve(self, client: ClientConnection) -> None:
        last = b""
        try:
            async with self._listener.accept(client) as connection:
                try:
                    await self._answer_all(client, connection)
                finally:
                    # If the whole node stops, its share sessions end anyway.
                    if self._server is not None:
                        self._dispatcher.disconnected(connection)
        except CloseConnection as error:
            self._refusals.warn(client.info("peername"), str(error), error.bug)
            last = error.last_bytes
        # This is how connections normally end, so don't log it.
        except (EOFError, ConnectionError):
            pass
        finally:
            client.close(last)

    async def _answer_all(self, client: ClientConnection, connection: ClientSession) -> None:
        while True:
            frame = await self._listener.receive(client, connection)
            try:
                # This isn't up to the dispatcher: a slow network must count neither as the broker's time nor as a delay
                # in a handler.
                await self._network.transfer(self._node.node_id, len(frame))
                response, throttle = await self._dispatcher.dispatch(frame, connection)
            finally:
                self._listener.served(frame)
            if response is not None:
                await self._network.transfer(self._node.node_id, len(response))
                await self._listener.send(client, response)
            # The response comes first: it says how long the pause is, so the client doesn't mistake it for a failure
            # (KIP-219).
            if throttle:
                await self._listener.throttle(throttle)
