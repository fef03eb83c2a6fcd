"""A node's port, which stays the node's while it is stopped."""

from __future__ import annotations

import os
import socket
from typing import Any


class ReservedPort:
    """Keeps a port from others by a socket that is bound to it, and does not listen: clients are refused.

    Without it the system may give the port to any process that asks for one, or to a client as its own end of a
    connection to that very port, which is then connected to itself.
    """

    def __init__(self) -> None:
        self._held: socket.socket | None = None

    def hold(self, family: int, address: Any) -> None:
        """Bind to the address of a socket that listens no more. Where that cannot be done the port is free."""
        self.release()
        if family == socket.AF_UNSPEC:
            # A simulated network gives no port twice.
            return
        held = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":
                # There may still be connections of the one before.
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held.bind(address)
        except OSError:
            held.close()
        else:
            self._held = held

    def take(self) -> socket.socket | None:
        """The socket to listen on, if the port is held; it is the caller's from now on."""
        held, self._held = self._held, None
        return held

    def release(self) -> None:
        """Let go of the port."""
        if self._held is not None:
            self._held.close()
            self._held = None
