"""The socket server of one node: one task per connection, one request at a time (Kafka's SocketServer)."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokproto.broker.control.network import Network
from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.request_context import CloseConnection
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.server.client_connection import ClientConnection
from aiokproto.broker.server.dispatch import Dispatcher
from aiokproto.broker.server.listener import Listener
from aiokproto.broker.server.refusal_log import RefusalLog
from aiokproto.broker.server.reserved_port import ReservedPort
from aiokproto.broker.server.tls_door import TlsDoor
from aiokproto.runtime import create_task


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
            return ClientConnection(self._accept)
        return TlsDoor(lambda accepted, peer: self._accept(ClientConnection(None, (accepted, peer))))

    def _accept(self, client: ClientConnection) -> None:
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
