"""Dial: from a host and port to a connected socket, plain TCP or TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from aiokproto.config import AddressMap
from aiokproto.errors import BrokerConnectionError
from aiokproto.net.timeouts import timeout_at
from aiokproto.net.tls_errors import CLOSED_EARLY, tls_error
from aiokproto.runtime import current
from aiokproto.security.tls.contexts import TlsContexts

P = TypeVar("P", bound=asyncio.BaseProtocol)

_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Idle seconds before the first probe, seconds between probes, and lost probes that end the connection."""

MAX_ADDRESSES = 16
"""Most addresses of one host name that are tried."""


async def dial(
    make: Callable[[], P],
    host: str,
    port: int,
    *,
    tls: TlsContexts | None,
    address_map: AddressMap | None,
    deadline: float,
    peer: str,
    threads: ThreadPoolExecutor | None = None,
) -> P:
    """Connect, trying the host name's addresses one after the other (KIP-302). Cancelling closes the socket.

    Args:
        make: Creates the protocol object.
        host: The host name. TLS verifies the certificate against it, even if ``address_map`` connects elsewhere.
        port: The port.
        tls: None for plain TCP.
        address_map: See :class:`~aiokproto.config.ConnectionOptions`.
        deadline: When to give up (s, the loop's clock). The time left is divided evenly among the untried addresses.
        peer: Names the broker in errors.
        threads: Where the host name is resolved; None for the loop's default executor.

    Raises:
        BrokerConnectionError: No address could be connected to. The text has each with its cause.
        NotKafkaError: The peer does not speak TLS.
        AuthenticationError: Either side rejected the other's certificate.
        ConfigurationError: The client's own certificates cannot be used.
    """
    loop = asyncio.get_running_loop()
    # Only the connection goes elsewhere; `host` stays what the certificate is verified against.
    name, number = address_map(host, port) if address_map is not None else (host, port)
    # First: a mistake in the options is there whatever the address is.
    context = await _context(tls, deadline, peer, threads) if tls is not None else None
    addresses = await _resolve(name, number, deadline, peer, threads)
    failures: list[str] = []
    for index, (family, address) in enumerate(addresses):
        # Even shares of what is left: a first address that swallows packets must leave time for the others, and one
        # that fails at once leaves them more.
        share = (deadline - loop.time()) / (len(addresses) - index)
        try:
            async with timeout_at(loop.time() + max(share, 0)):
                _, protocol = await loop.create_connection(
                    make,
                    address,
                    number,
                    family=family,
                    ssl=context,
                    server_hostname=host if context is not None else None,
                )
            return protocol
        except ssl.SSLError as error:
            raise tls_error(peer, error) from error
        except asyncio.TimeoutError:
            failures.append(f"{address}: no connection in {share:.3g} s")
        except OSError as error:
            ended = context is not None and isinstance(error, ConnectionResetError | ConnectionAbortedError)
            failures.append(f"{address}: {'connection closed' + CLOSED_EARLY if ended else _reason(error)}")
    raise BrokerConnectionError(f"cannot connect to {peer}: {'; '.join(failures)}")


async def _context(tls: TlsContexts, deadline: float, peer: str, threads: ThreadPoolExecutor | None) -> ssl.SSLContext:
    try:
        async with timeout_at(deadline):
            return await tls.context(threads)
    except asyncio.TimeoutError:
        raise BrokerConnectionError(f"cannot connect to {peer}: reading certificates took too long") from None


async def _resolve(
    host: str, port: int, deadline: float, peer: str, threads: ThreadPoolExecutor | None
) -> list[tuple[int, str]]:
    for family in (socket.AF_INET, socket.AF_INET6):
        # A literal address needs no resolver, hence no thread.
        with suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return [(int(family), host)]
    try:
        async with timeout_at(deadline):
            found = await current().getaddrinfo(threads, host, port)
    except asyncio.TimeoutError:
        raise BrokerConnectionError(f"cannot connect to {peer}: resolving {host!r} took too long") from None
    except (OSError, UnicodeError) as error:
        text = f"cannot connect to {peer}: {host!r} cannot be resolved: {_reason(error)}"
        raise BrokerConnectionError(text) from error
    # Once each, in the resolver's order: getaddrinfo repeats an address for every socket type.
    return list(dict.fromkeys((int(family), str(address[0])) for family, _, _, _, address in found))[:MAX_ADDRESSES]


def _reason(error: BaseException) -> str:
    """Return the operating system's error text, without the address that asyncio adds to it."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Enable TCP keepalive: NAT gateways and firewalls drop idle connections silently.

    Where the operating system does not have these socket options, its own times apply.
    """
    # None in the simulation, whose transports have no socket.
    connected = transport.get_extra_info("socket")
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
