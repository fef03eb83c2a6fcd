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
"""At most so many lines in so many seconds: everyone can cause them, also without a login."""

_LONGEST = 500
"""Longest text of a line, in characters: it can have what the client has sent."""

log = logging.getLogger("aiokproto.broker")


class RefusalLog:
    """Logs which connections a node closes, and why; what is left out is counted, and the number logged.

    Args:
        node_id: The node.
    """

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._closed = 0
        self._end: asyncio.TimerHandle | None = None

    def warn(self, peer: object, why: str, bug: Exception | None = None) -> None:
        """Log that a connection is closed; for a bug as an error, with its traceback."""
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(WINDOW, self.report)
        self._closed += 1
        if self._closed <= MAX_LOGGED:
            level = logging.WARNING if bug is None else logging.ERROR
            text = "broker %d closes the connection from %s: %s"
            log.log(level, text, self._node_id, peer, shown(why, _LONGEST), exc_info=bug)

    def report(self) -> None:
        """End the window: log how many lines were left out in it."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._closed > MAX_LOGGED:
            more = counted(self._closed - MAX_LOGGED, "more connection")
            log.warning("broker %d closed %s within %g s", self._node_id, more, WINDOW)
        self._closed = 0


class ReservedPort:
    """Reserves a port with a socket that is bound to it but does not listen: connections are refused.

    Without it the operating system could give the port to another process, or to a client as the local port of its own
    reconnect attempt: TCP then connects that socket to itself.
    """

    def __init__(self) -> None:
        self._held: socket.socket | None = None

    def hold(self, family: int, address: Any) -> None:
        """Bind to the address of a closed server socket. If that fails the port is not reserved."""
        # At most one socket per node.
        self.release()
        if family == socket.AF_UNSPEC:
            # The simulated network never assigns a port twice.
            return
        held = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":
                # Connections of the stopped node may still be in TIME_WAIT.
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # As asyncio binds its servers. Without it the port would be taken for IPv4 as well.
            if family == socket.AF_INET6:
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held.bind(address)
        # Another process was faster. start() then fails with an error that names the address.
        except OSError:
            held.close()
        else:
            self._held = held

    def take(self) -> socket.socket | None:
        """Return the bound socket, if the port is reserved. The caller owns it from now on."""
        held, self._held = self._held, None
        return held

    def release(self) -> None:
        """Release the port."""
        if self._held is not None:
            self._held.close()
            self._held = None


class TlsAcceptor(asyncio.Protocol):
    """Takes the socket out of a new connection, unread.

    ``create_server(ssl=…)`` hands a connection over only after its handshake: who begins none would not be counted.
    ``start_tls()`` is no way out: it needs a transport that has not read yet, and uvloop's cannot be stopped in time.
    """

    def __init__(self, server: SocketServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made: Any = transport
        known = made.get_extra_info("socket")
        try:
            # A copy: the transport closes its own.
            copied = socket.fromfd(known.fileno(), known.family, known.type, known.proto)
        # The process has no file descriptor left: the connection is dropped, as accept() would.
        except OSError:
            copied = None
        peer = made.get_extra_info("peername")
        made.abort()
        if copied is not None:
            copied.setblocking(False)
            self._server.accept(ClientConnection(None, (copied, peer)))


class SocketServer:
    """Listens for a node, and serves its connections.

    The requests of a connection are served one after the other, as in Kafka: pipelined requests wait in the socket, and
    a long poll delays only its own connection. This keeps responses in request order, as the protocol requires.
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
        """Start listening. With port 0 a free port is picked, and stays the node's."""
        node = self._node
        reserved = self._port.take()
        where: dict[str, Any] = {"sock": reserved}
        if reserved is None:
            where = {"host": node.listens or node.host, "port": node.port}
        try:
            self._server = await asyncio.get_running_loop().create_server(self._protocol, **where)
        # Also when cancelled: the socket is ours until a server has it.
        except BaseException:
            if reserved is not None:
                reserved.close()
            raise
        # Before the node is registered: metadata names the port.
        node.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and close all connections, also those with waiting requests. The port is reserved from then
        on."""
        if self._server is None:
            return
        server, self._server = self._server, None
        addresses = [(each.family, each.getsockname()) for each in server.sockets]
        server.close()
        # A host name with several addresses may have a different port for each: these are not reserved.
        if len(addresses) == 1:
            self._port.hold(*addresses[0])
        self._listener.close()
        self._refusals.report()
        for task, client in self._connections.items():
            task.cancel()
            # Unsent responses are dropped: a node that stops is lost for its clients, as one that loses power.
            client.abort()
        if self._connections:
            # Not gather(): a connection's error is reported by its own task, and must not leave the others running.
            await asyncio.wait(list(self._connections))
        await server.wait_closed()

    def _protocol(self) -> asyncio.BaseProtocol:
        if self._listener.tls is None:
            return ClientConnection(self)
        return TlsAcceptor(self)

    def accept(self, client: ClientConnection) -> None:
        """Serve a new connection in a task of its own."""
        # The event loop may deliver a connection that was accepted just before close().
        if self._server is None:
            client.abort()
            return
        task = create_task(self._serve(client))
        self._connections[task] = client
        # Also keeps the task alive: asyncio holds tasks only weakly.
        task.add_done_callback(self._connections.pop)

    async def _serve(self, client: ClientConnection) -> None:
        last = b""
        try:
            async with self._listener.accept(client) as connection:
                try:
                    await self._answer_all(client, connection)
                finally:
                    # When the whole node stops, its share sessions end with it.
                    if self._server is not None:
                        self._dispatcher.disconnected(connection)
        except CloseConnection as error:
            self._refusals.warn(client.info("peername"), str(error), error.bug)
            last = error.last_bytes
        # The usual end of a connection is no news.
        except (EOFError, ConnectionError):
            pass
        finally:
            client.close(last)

    async def _answer_all(self, client: ClientConnection, connection: ClientSession) -> None:
        while True:
            frame = await self._listener.receive(client, connection)
            try:
                # Outside of the dispatcher, so that a slow network counts neither as the broker's time nor as a delay
                # of a handler.
                await self._network.transfer(self._node.node_id, len(frame))
                response, throttle = await self._dispatcher.dispatch(frame, connection)
            finally:
                self._listener.served(frame)
            if response is not None:
                await self._network.transfer(self._node.node_id, len(response))
                await self._listener.send(client, response)
            # After the response: the client learns how long it is, and does not take the pause for a failure (KIP-219).
            if throttle:
                await self._listener.throttle(throttle)
