"""A gateway on a real socket: one address for several TLS servers. The server name (SNI) chooses the server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.net.peer import raw_peer


class Gateway:
    """Forwards connections, without taking part in their TLS.

    Attributes:
        routes: The port of each server name.
        asked: How often each name was requested; None stands for none.
        port: Where it listens.
    """

    def __init__(self, routes: Mapping[str, int]) -> None:
        self.routes = dict(routes)
        self.asked: Counter[str | None] = Counter()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readexactly(5)
        hello = await reader.readexactly(int.from_bytes(head[3:], "big"))
        name = server_name(hello)
        self.asked[name] += 1
        if name not in self.routes:
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.routes[name])
        far_writer.write(head + hello)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            except ConnectionError:
                pass
            finally:
                sink.close()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))


def server_name(hello: bytes) -> str | None:
    """Return the server name in a ClientHello (RFC 8446, section 4.1.2; RFC 6066, section 3)."""
    # Skip type and length, version, random.
    at = 4 + 2 + 32
    # Skip session id, cipher suites and compression methods, each behind its length.
    for size in (1, 2, 1):
        at += size + int.from_bytes(hello[at : at + size], "big")
    at += 2
    while at < len(hello):
        kind, size = int.from_bytes(hello[at : at + 2], "big"), int.from_bytes(hello[at + 2 : at + 4], "big")
        if kind == 0:
            # Skip the length of the list, the type of the name, and its length.
            return hello[at + 4 + 5 : at + 4 + size].decode()
        at += 4 + size
    return None


@asynccontextmanager
async def gateway(routes: Mapping[str, int]) -> AsyncIterator[Gateway]:
    """A gateway on a free port."""
    running = Gateway(routes)
    async with raw_peer(running.serve) as running.port:
        yield running
