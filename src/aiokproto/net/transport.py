"""Dialling: from a host and port to a connected socket, TCP or TLS."""

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
from aiokproto.errors import AuthenticationError, BrokerConnectionError, NotKafkaError
from aiokproto.net.timeouts import timeout_at
from aiokproto.runtime import current

P = TypeVar("P", bound=asyncio.BaseProtocol)

_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first probe, seconds between probes, and how many may go unanswered."""

MAX_ADDRESSES = 16
"""So many of a name's addresses are tried."""

# What OpenSSL calls a peer that answers a TLS greeting with something else.
_NOT_TLS = {
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "WRONG_VERSION_NUMBER",
}

# Alerts that are about who may connect. After others, such as an internal error of the broker, it may go better.
_REFUSAL = (
    "ACCESS_DENIED",
    "CERTIFICATE",
    "DECRYPT_ERROR",
    "HANDSHAKE_FAILURE",
    "INSUFFICIENT_SECURITY",
    "PROTOCOL_VERSION",
    "UNKNOWN_CA",
    "UNKNOWN_PSK",
)


async def dial(
    make: Callable[[], P],
    host: str,
    port: int,
    *,
    ssl_context: ssl.SSLContext | None,
    address_map: AddressMap | None,
    deadline: float,
    peer: str,
    threads: ThreadPoolExecutor | None = None,
) -> P:
    """Connect, trying every address that the name has, one after the other.

    Args:
        make: Makes the protocol object.
        host: Where; TLS checks the certificate for this name, whatever ``address_map`` does.
        port: Where.
        ssl_context: None for plain text.
        address_map: See :class:`~aiokproto.config.ConnectionOptions`.
        deadline: When to give up (the loop's time); what is left of it is shared among the addresses still untried.
        peer: Names the broker in errors.
        threads: Where names are looked up, by default in the loop's.

    Raises:
        BrokerConnectionError: With what went wrong at each address.
        NotKafkaError: It does not speak TLS.
        AuthenticationError: A certificate was not accepted, on their side or ours.
    """
    loop = asyncio.get_running_loop()
    name, number = address_map(host, port) if address_map is not None else (host, port)
    addresses = await _resolve(name, number, deadline, peer, threads)
    failures: list[str] = []
    for index, (family, address) in enumerate(addresses):
        share = (deadline - loop.time()) / (len(addresses) - index)
        try:
            async with timeout_at(loop.time() + max(share, 0)):
                _, protocol = await loop.create_connection(
                    make,
                    address,
                    number,
                    family=family,
                    ssl=ssl_context,
                    server_hostname=host if ssl_context is not None else None,
                )
            return protocol
        except ssl.SSLError as error:
            raise tls_error(peer, error) from error
        except asyncio.TimeoutError:
            failures.append(f"{address}: no answer in {share:.3g} s")
        except OSError as error:
            failures.append(f"{address}: {_reason(error)}")
    raise BrokerConnectionError(f"cannot connect to {peer}: {'; '.join(failures)}")


async def _resolve(
    host: str, port: int, deadline: float, peer: str, threads: ThreadPoolExecutor | None
) -> list[tuple[int, str]]:
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return [(int(family), host)]
    try:
        async with timeout_at(deadline):
            found = await current().getaddrinfo(threads, host, port)
    except asyncio.TimeoutError:
        raise BrokerConnectionError(f"cannot connect to {peer}: resolving {host!r} takes too long") from None
    except (OSError, UnicodeError) as error:
        text = f"cannot connect to {peer}: {host!r} cannot be resolved: {_reason(error)}"
        raise BrokerConnectionError(text) from error
    return list(dict.fromkeys((int(family), str(address[0])) for family, _, _, _, address in found))[:MAX_ADDRESSES]


def _reason(error: BaseException) -> str:
    """The system's words, without the address that asyncio adds: we name it ourselves."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def tls_error(peer: str, error: ssl.SSLError) -> BrokerConnectionError:
    """What a failure of the TLS handshake means."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(f"the certificate of {peer} was not accepted: {error.verify_message}")
    reason = error.reason or str(error)
    if reason in _NOT_TLS:
        hint = "a plain listener takes security_protocol='PLAINTEXT'"
        return NotKafkaError(f"{peer} does not speak TLS ({reason}): {hint}")
    if "ALERT" in reason and any(word in reason for word in _REFUSAL):
        return AuthenticationError(f"{peer} ended the TLS handshake: {reason}")
    return BrokerConnectionError(f"the TLS handshake with {peer} failed: {reason}")


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the system ask after the peer while a connection is idle (TCP keepalive): networks forget connections
    silently. Where the system has no such options its own times hold."""
    connected = transport.get_extra_info("socket")
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
