"""Reserves a node's port while the node is stopped."""

from __future__ import annotations

import os
import socket
from typing import Any


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
