"""Accepts connections that will be encrypted, before their TLS handshake."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any


class TlsDoor(asyncio.Protocol):
    """Takes the socket out of a new connection, unread.

    ``create_server(ssl=…)`` hands a connection over only after its handshake: who begins none would not be counted.
    ``start_tls()`` is no way out: it needs a transport that has not read yet, and uvloop's cannot be stopped in time.
    """

    def __init__(self, accept: Callable[[socket.socket, Any], None]) -> None:
        """``accept`` is called with the socket, which it owns, and the client's address."""
        self._accept = accept

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
            self._accept(copied, peer)
