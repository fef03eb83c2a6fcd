"""Proxies on real sockets: SOCKS5 and CONNECT, which forward, refuse, or answer as the test says."""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """What a proxy does.

    Attributes:
        login: User and password that it wants; None for nobody.
        leads_to: Where names lead that only the proxy can resolve; without an entry the address itself is used.
        refuses: The reply code (SOCKS5) or status line (HTTP) in place of a connection.
        asked: The hosts and ports that clients have requested.
    """

    login: tuple[str, str] | None = None
    leads_to: dict[str, str] = field(default_factory=dict)
    refuses: object = None
    asked: list[tuple[str, int]] = field(default_factory=list)
    port: int = 0

    async def socks5(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        method = 2 if self.login is not None else 0
        if method not in methods:
            writer.write(b"\x05\xff")
            return
        writer.write(bytes((5, method)))
        if self.login is not None:
            _, size = await reader.readexactly(2)
            user = (await reader.readexactly(size)).decode()
            password = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
            writer.write(b"\x01" + (b"\0" if (user, password) == self.login else b"\1"))
            if (user, password) != self.login:
                return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        elif kind == 1:
            host = socket.inet_ntop(socket.AF_INET, await reader.readexactly(4))
        else:
            host = socket.inet_ntop(socket.AF_INET6, await reader.readexactly(16))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append((host, port))
        if self.refuses is not None:
            writer.write(bytes((5, int(str(self.refuses)), 0, 1, 0, 0, 0, 0, 0, 0)))
            return
        # The name of its own address is as long as it likes.
        await self._forward(reader, writer, host, port, b"\x05\0\0\x03\x09localhost\0\x07")

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        assert method == "CONNECT"
        assert f"Host: {target}" in head
        host, _, port = target.rpartition(":")
        self.asked.append((host.strip("[]"), int(port)))
        if self.login is not None:
            expected = b64encode(":".join(self.login).encode()).decode()
            if f"Proxy-Authorization: Basic {expected}" not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
        if self.refuses is not None:
            writer.write(f"HTTP/1.1 {self.refuses}\r\n\r\n".encode())
            return
        await self._forward(
            reader, writer, *self.asked[-1], b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"
        )

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, reply: bytes
    ) -> None:
        far_reader, far_writer = await asyncio.open_connection(self.leads_to.get(host, host), port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            except (ConnectionError, ssl.SSLError):
                pass
            finally:
                sink.close()

        writer.write(reply)
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))


@asynccontextmanager
async def proxy(kind: str, tls: ssl.SSLContext | None = None, **settings: object) -> AsyncIterator[Proxy]:
    """A proxy on a free port: ``"socks5"`` or ``"connect"``."""
    running = Proxy(**settings)  # type: ignore[arg-type]
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks[task] = writer
        try:
            await (running.socks5 if kind.startswith("socks5") else running.connect)(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            del tasks[task]

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        for writer in tasks.values():
            writer.transport.abort()
        if tasks:
            await asyncio.wait(set(tasks))
        await server.wait_closed()
