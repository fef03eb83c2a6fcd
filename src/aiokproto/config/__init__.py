"""Options of the clients: their names, the values they accept, and what those are converted to.

``connection`` defines the options that all clients share, ``proxy`` the options of a proxy, and ``values`` the checks
of individual options, which each client's own ``config`` module also uses.
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
