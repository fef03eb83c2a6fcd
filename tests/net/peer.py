"""A scripted broker on a real socket: its responses, even malformed, late or missing ones, come from a table."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokproto.codec import registry
from aiokproto.codec.frames import RequestFrame, decode_request_header, encode_response
from aiokproto.codec.messages.api_versions import ApiVersion, ApiVersionsResponse
from aiokproto.codec.schema import Request, Response
from aiokproto.config import ClusterConfig
from aiokproto.net.connection import Connection
from aiokproto.net.open import open_connection
from tests.timeouts import LONG_TIMEOUT

Answer = Callable[[Any, int], Response | bytes | None]
"""Maps request and version to the response, to raw bytes to send instead, or to None for no response."""


class HangUp(Exception):
    """Raised by an answer: close the connection."""


def serves(**ranges: tuple[int, int]) -> Answer:
    """ApiVersions with the named APIs: ``serves(Metadata=(0, 13))``."""
    keys = [
        ApiVersion(api_key=registry.lookup(f"{name}Request").api_key, min_version=low, max_version=high)  # type: ignore[attr-defined]
        for name, (low, high) in {"ApiVersions": (0, 4), **ranges}.items()
    ]
    return lambda request, version: ApiVersionsResponse(error_code=0, api_keys=keys)


class Peer:
    """A scripted broker. ``requests`` has each ``(request, version)`` it received, in order over all connections."""

    def __init__(self, answers: Mapping[type[Request[Any]], Answer]) -> None:
        self.answers = {request.api_key: answer for request, answer in answers.items()}
        self.requests: list[tuple[Any, int]] = []
        self.connections = 0
        self.port = 0
        self.hung_up = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def drop_all(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                self._answer(decode_request_header(await reader.readexactly(size)), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, HangUp):
            pass
        except ConnectionError:
            # The writer has a future with it, too, and the event loop reports one that is never retrieved.
            with suppress(ConnectionError):
                await writer.wait_closed()
        finally:
            writer.close()
            self._writers.discard(writer)
            self._tasks.discard(task)
            self.hung_up.set()

    def _answer(self, frame: RequestFrame, writer: asyncio.StreamWriter) -> None:
        request = registry.request(frame.api_key).decode(frame.body, frame.api_version)
        self.requests.append((request, frame.api_version))
        if frame.api_key not in self.answers:
            # Brokers do so with an API that they don't know. A client that finds this one slow sends more requests.
            raise HangUp
        answer = self.answers[frame.api_key](request, frame.api_version)
        if isinstance(answer, Response):
            refusal = isinstance(answer, ApiVersionsResponse) and answer.error_code == 35
            version = 0 if refusal else frame.api_version
            writer.write(encode_response(answer, version, frame.correlation_id))
        elif answer is not None:
            writer.write(answer)

    async def stop(self) -> None:
        self.drop_all()
        while self._tasks:
            await asyncio.wait(set(self._tasks))


@asynccontextmanager
async def peer(
    answers: Mapping[type[Request[Any]], Answer],
    port: int = 0,
    ssl_context: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[Peer]:
    """A scripted broker on a free port, or on a `held_port`."""
    running = Peer(answers)
    server = await asyncio.start_server(running.serve, host, port, ssl=ssl_context, reuse_port=bool(port))
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        await running.stop()
        await server.wait_closed()


@asynccontextmanager
async def raw_peer(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """Listen on a free port, call ``serve`` for each connection, then close it; yields the port."""
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers.add(writer)
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            writers.discard(writer)
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        if tasks:
            await asyncio.wait(set(tasks))
        await server.wait_closed()


def config(**changes: Any) -> ClusterConfig:
    """A configuration for tests: short backoffs and long timeouts."""
    values: dict[str, Any] = {
        "bootstrap_servers": (("127.0.0.1", 1),),
        "request_timeout": LONG_TIMEOUT,
        "api_timeout": LONG_TIMEOUT,
        "connect_timeout": LONG_TIMEOUT,
        "retry_backoff": 0.001,
        "retry_backoff_max": 0.005,
        "reconnect_backoff": 0.001,
        "reconnect_backoff_max": 0.005,
        "bootstrap_timeout": 0.0,
    }
    return ClusterConfig(**{**values, **changes})


@asynccontextmanager
async def connected(port: int, timeout: float = LONG_TIMEOUT, **changes: Any) -> AsyncIterator[Connection]:
    """A connection to a local port."""
    name = f"127.0.0.1:{port}"
    connection = await open_connection("127.0.0.1", port, name, config(**changes), timeout)
    try:
        yield connection
    finally:
        connection.abort()
        await connection.wait_closed()
