"""One node's server: frames in, frames out, in order."""

from __future__ import annotations

import asyncio
import logging

from aiokproto.broker.context import Hangup
from aiokproto.broker.dispatch import Dispatcher
from aiokproto.broker.state import Node

log = logging.getLogger("aiokproto.broker")

_BUFFER = 1 << 20


class Server:
    """Listens for a node.

    The requests of a connection are handled one after the other, as Kafka does: what is sent ahead waits, a long poll
    holds up its own connection and no other.
    """

    def __init__(self, node: Node, dispatcher: Dispatcher, max_frame: int) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._max_frame = max_frame
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Listen; a port of 0 becomes the one that was free, and stays the node's."""
        node = self._node
        self._server = await asyncio.start_server(self._accept, node.host, node.port, limit=_BUFFER)
        node.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut all connections, whatever is parked on them."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for task, writer in self._connections.items():
            task.cancel()
            writer.transport.abort()
        if self._connections:
            await asyncio.wait(list(self._connections))
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A connection may have been accepted just before the server was closed.
        if self._server is None:
            writer.transport.abort()
            return
        # A task of our own: what asyncio makes for a coroutine here reports its cancellation as an error.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        host = str(peer[0]) if peer else "?"
        try:
            await self._answer_all(reader, writer, host)
        except Hangup as error:
            log.warning("broker %d closes the connection from %s: %s", self._node.node_id, host, error)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
            if not 0 <= size <= self._max_frame:
                raise Hangup(f"a frame of {size} bytes, the limit (socket.request.max.bytes) is {self._max_frame}")
            frame = await reader.readexactly(size)
            reply = await self._dispatcher.answer(frame, host)
            if reply is not None:
                writer.write(reply)
                await writer.drain()
