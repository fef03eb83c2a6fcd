"""One node's server: frames in, frames out, in order."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokproto.broker.control.network import Network
from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.request_context import CloseConnection
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.server.client_connection import ClientConnection
from aiokproto.broker.server.dispatch import Dispatcher
from aiokproto.broker.server.listener import TLS_HANDSHAKE_SECONDS, Listener
from aiokproto.broker.server.reserved_port import ReservedPort

log = logging.getLogger("aiokproto.broker")


class SocketServer:
    """Listens for a node.

    The requests of a connection are handled one after the other, as Kafka does: what is sent ahead waits, a long poll
    holds up its own connection and no other.
    """

    def __init__(
        self, node: Node, port: ReservedPort, dispatcher: Dispatcher, listener: Listener, network: Network
    ) -> None:
        self._node = node
        self._port = port
        self._dispatcher = dispatcher
        self._listener = listener
        self._network = network
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], ClientConnection] = {}

    async def start(self) -> None:
        """Listen; a port of 0 becomes the one that was free, and stays the node's."""
        node = self._node
        tls = self._listener.tls
        held = self._port.take()
        where: dict[str, Any] = {"host": node.host, "port": node.port} if held is None else {"sock": held}
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: ClientConnection(self._accept),
                **where,
                ssl=tls,
                ssl_handshake_timeout=TLS_HANDSHAKE_SECONDS if tls else None,
            )
        except BaseException:
            if held is not None:
                held.close()
            raise
        node.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut all connections, whatever is parked on them. The port is held from then on."""
        if self._server is None:
            return
        server, self._server = self._server, None
        addresses = [(each.family, each.getsockname()) for each in server.sockets]
        server.close()
        # A name with several addresses may have a port for each.
        if len(addresses) == 1:
            self._port.hold(*addresses[0])
        self._listener.close()
        for task, client in self._connections.items():
            task.cancel()
            client.abort()
        if self._connections:
            await asyncio.wait(list(self._connections))
        await server.wait_closed()

    def _accept(self, client: ClientConnection) -> None:
        # A connection may have been accepted just before the server was closed.
        if self._server is None:
            client.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._connections[task] = client
        task.add_done_callback(self._connections.pop)

    async def _serve(self, client: ClientConnection) -> None:
        last = b""
        try:
            async with self._listener.accept(client) as connection:
                try:
                    await self._answer_all(client, connection)
                finally:
                    # A node that ends has no sessions any more to end one of.
                    if self._server is not None:
                        self._dispatcher.disconnected(connection)
        except CloseConnection as error:
            peer = client.info("peername")
            log.warning("broker %d closes the connection from %s: %s", self._node.node_id, peer, error)
            last = error.last_bytes
        except (EOFError, ConnectionError):
            pass
        finally:
            client.close(last)

    async def _answer_all(self, client: ClientConnection, connection: ClientSession) -> None:
        while True:
            frame = await self._listener.receive(client, connection)
            await self._network.transfer(self._node.node_id, len(frame))
            response, throttle = await self._dispatcher.dispatch(frame, connection)
            if response is not None:
                await self._network.transfer(self._node.node_id, len(response))
                await client.send(response)
            if throttle:
                await self._listener.throttle(throttle)
