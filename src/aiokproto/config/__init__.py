"""Options of the clients: what they are called, what they accept, and what they become.

``connection`` has the options that all clients share, ``proxy`` the options of a proxy, and ``values`` the checks of
single options, which each client's own ``config`` module uses, too.
"""

from __future__ import annotations

from aiokproto.config.connection import (
    MAX_PORT,
    SECURITY_PROTOCOLS,
    Address,
    ClusterConfig,
    ConnectionOptions,
    parse_addresses,
)

__all__ = ["MAX_PORT", "SECURITY_PROTOCOLS", "Address", "ClusterConfig", "ConnectionOptions", "parse_addresses"]
