"""From a host name to a connected socket, trying every address of the name (KIP-302, RFC 8305).

The addresses are tried in the resolver's order, but alternating between IPv6 and IPv4. If an address has neither
answered nor failed within :data:`FALLBACK_DELAY`, the next one is tried in parallel; the first that accepts is used. So
an address that swallows packets costs a quarter of a second, and a network without IPv6 costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from aiokproto.errors import BrokerConnectionError
from aiokproto.runtime import create_task, current
from aiokproto.runtime.timeouts import timeout_at
from aiokproto.texts import address

FALLBACK_DELAY = 0.25
"""Seconds after which the next address is tried in parallel with the last one (RFC 8305, section 8)."""

MAX_ADDRESSES = 16
"""Maximum number of addresses of one host name that are tried."""


class Endpoint(NamedTuple):
    """A resolved address.

    Attributes:
        family: ``AF_INET`` or ``AF_INET6``.
        sockaddr: The address as ``connect()`` takes it; for IPv6 this includes the zone.
    """

    family: int
    sockaddr: tuple[Any, ...]

    @property
    def host(self) -> str:
        """The address as text."""
        return str(self.sockaddr[0])


async def resolve(
    host: str, port: int, deadline: float, what: str, threads: ThreadPoolExecutor | None
) -> list[Endpoint]:
    """Return the addresses of a host name, in the order to try them. A literal address is returned without a lookup.

    Args:
        host: Host name or address.
        port: The port.
        deadline: When to give up (s, the loop's clock).
        what: The start of the error message: ``"cannot connect to broker 1"``.
        threads: The executor that resolves the name; None for the loop's default executor.

    Raises:
        BrokerConnectionError: The name has no address, or resolving it took too long.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        # A literal address doesn't need the resolver, or a thread.
        with suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return [Endpoint(int(family), (host, port))]
    try:
        async with timeout_at(deadline):
            found = await current().getaddrinfo(threads, host, port)
    except asyncio.TimeoutError:
        raise BrokerConnectionError(f"{what}: resolving {host!r} took too long") from None
    except (OSError, ValueError) as error:
        raise BrokerConnectionError(f"{what}: {host!r} cannot be resolved: {reason(error)}") from error
    # Remove duplicates: getaddrinfo repeats each address for every socket type.
    endpoints = list(dict.fromkeys(Endpoint(int(family), address) for family, _, _, _, address in found))
    return by_turns(endpoints)[:MAX_ADDRESSES]


def by_turns(endpoints: list[Endpoint]) -> list[Endpoint]:
    """Alternate between the address families, starting with the first address's (RFC 8305, section 4)."""
    families = dict.fromkeys(endpoint.family for endpoint in endpoints)
    columns = ([one for one in endpoints if one.family == family] for family in families)
    return [one for one in chain.from_iterable(zip_longest(*columns)) if one is not None]


async def connect(untried: list[Endpoint], deadline: float, failures: list[str]) -> tuple[socket.socket, str] | None:
    """Connect to whichever address accepts first. Cancelling closes all sockets.

    Args:
        untried: The addresses. The ones that failed, and the one that is returned, are removed from the list.
        deadline: When to give up (s, the loop's clock).
        failures: Each address that failed is added to this list, with its error.

    Returns:
        A non-blocking socket and its address, or None if no address accepted.
    """
    loop = asyncio.get_running_loop()
    attempts: dict[asyncio.Task[socket.socket], Endpoint] = {}
    winner: socket.socket | None = None
    begun = loop.time()
    try:
        while untried or attempts:
            if untried:
                endpoint = untried.pop(0)
                attempts[create_task(_attempt(endpoint))] = endpoint
            until = min(deadline, loop.time() + FALLBACK_DELAY) if untried else deadline
            await asyncio.wait(attempts, timeout=max(until - loop.time(), 0), return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in attempts if task.done()]:
                error = task.exception()
                if error is None:
                    winner = task.result()
                    return winner, attempts.pop(task).host
                if not isinstance(error, OSError):
                    raise error
                failures.append(f"{attempts.pop(task).host}: {reason(error)}")
            if loop.time() >= deadline:
                took = f"no connection in {loop.time() - begun:.3g} s"
                failures += [f"{endpoint.host}: {took}" for endpoint in (*attempts.values(), *untried)]
                untried.clear()
                return None
        return None
    finally:
        # These lost the race, and can be tried again if the winner turns out to be useless.
        if loop.time() < deadline:
            untried[:0] = attempts.values()
        try:
            await _discard(attempts)
        # If the call is cancelled here, the caller doesn't get the winner.
        except asyncio.CancelledError:
            if winner is not None:
                winner.close()
            raise


async def _attempt(endpoint: Endpoint) -> socket.socket:
    opened = socket.socket(endpoint.family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, endpoint.sockaddr)
    # BaseException includes a cancellation, after which nothing else closes the socket.
    except BaseException:
        opened.close()
        raise
    return opened


async def _discard(attempts: dict[asyncio.Task[socket.socket], Endpoint]) -> None:
    for task in attempts:
        # Close the socket in a callback, which runs even if the wait below is cancelled.
        task.add_done_callback(_close_result)
        task.cancel()
    if attempts:
        await asyncio.wait(attempts)


def _close_result(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def canonical_names(host: str, port: int, deadline: float, threads: ThreadPoolExecutor | None) -> list[str]:
    """Return the canonical name of each address of a host, like ``InetAddress.getCanonicalHostName`` (KIP-235).

    If an address has no name, the address itself is returned. Raises the same errors as :func:`resolve`.
    """
    what = f"bootstrap address {address(host, port)}"
    endpoints = await resolve(host, port, deadline, what, threads)
    try:
        async with timeout_at(deadline):
            names = [await _name_of(endpoint, threads) for endpoint in endpoints]
    except asyncio.TimeoutError:
        raise BrokerConnectionError(f"{what}: finding its canonical names took too long") from None
    return list(dict.fromkeys(names))


async def _name_of(endpoint: Endpoint, threads: ThreadPoolExecutor | None) -> str:
    try:
        return await current().getnameinfo(threads, endpoint.sockaddr)
    # Treat errors like a missing name. Not every address has a name, and its owner can choose any name anyway.
    except OSError:
        return endpoint.host


def reason(error: BaseException) -> str:
    """Return the operating system's error message, without the address that asyncio adds to it."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
