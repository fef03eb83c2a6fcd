"""Sources of nondeterminism: wall clock, CPU time, name resolution, randomness, and when a task starts."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random, SystemRandom
from typing import Any, TypeVar
from uuid import UUID

from aiokproto.runtime.timeouts import Task

thread_id = threading.get_ident
"""The running thread's id."""

T = TypeVar("T")

AddressInfo = tuple[Any, ...]
"""One result of ``socket.getaddrinfo``: family, type, protocol, canonical name, address."""


class Runtime:
    """The machine's clock, names and randomness, for clients and the embedded broker.

    Monotonic time, timers, connections and threads come from the event loop. If the loop has a ``runtime`` attribute,
    that replaces this class's sources, too: see :mod:`aiokproto.simulation`.

    Attributes:
        random: Used for jitter, partitions of records without a key, and ids. By default these aren't the functions of
            :mod:`random`: a client must not affect the sequence of an application that has seeded them, and a forked
            process must not repeat its parent's numbers.
        secrets: Used for salts and nonces of logins. In a simulation it's separate from :attr:`random`, so that an
            additional secret doesn't change later random decisions.
    """

    def __init__(self, random: Random, secrets: Random | None = None) -> None:
        """``secrets`` is ``random`` by default."""
        self.random = random
        self.secrets = random if secrets is None else secrets

    def milliseconds(self) -> int:
        """Return the wall-clock time, for timestamps of records and logs, in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def cpu_time(self) -> float:
        """Return the thread's CPU time in seconds. A difference shows how long a task has occupied the event loop."""
        return time.thread_time()

    def getaddrinfo(self, threads: ThreadPoolExecutor | None, host: str, port: int) -> Awaitable[list[AddressInfo]]:
        """Resolve a host name in one of ``threads`` (None for the loop's default executor)."""
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return asyncio.get_running_loop().run_in_executor(threads, look_up)

    def getnameinfo(self, threads: ThreadPoolExecutor | None, sockaddr: tuple[Any, ...]) -> Awaitable[str]:
        """Return the host name of an address, or the address itself if it has none, like ``InetAddress`` in Java."""
        look_up = partial(socket.getnameinfo, sockaddr, socket.NI_NUMERICSERV)
        found = asyncio.get_running_loop().run_in_executor(threads, look_up)
        return _first(found)

    def uuid(self) -> UUID:
        """Return a random UUID (version 4)."""
        return UUID(int=self.random.getrandbits(128), version=4)


async def _first(found: Awaitable[tuple[str, str]]) -> str:
    return (await found)[0]


SYSTEM = Runtime(SystemRandom())
"""The machine's own runtime."""


def current() -> Runtime:
    """Return the running event loop's runtime, or :data:`SYSTEM`."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return SYSTEM
    # The runtime belongs to the loop and isn't global: a simulation and a real loop can run in one process.
    found: Runtime = getattr(loop, "runtime", SYSTEM)
    return found


def create_task(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Create a task that starts in the running event loop's next iteration.

    Code that creates a task can rely on this: until its next await, it can still prepare the state that the task uses.
    A task factory could start the task within the call (``asyncio.eager_task_factory``), so this library doesn't use
    one.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None and Task is asyncio.Task:
        return loop.create_task(work, name=name)
    return Task(work, loop=loop, name=name)


def monotonic() -> float:
    """Return a monotonic time in seconds, for durations. It's the running event loop's clock, if there is a loop."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


def utc(seconds: int) -> str:
    """Format a time, in seconds since the epoch, as ``20260131T235959Z`` (ISO 8601, basic format)."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


def uniform(low: float, high: float) -> float:
    """Return a random number between ``low`` and ``high``, from the current :class:`Runtime`."""
    return current().random.uniform(low, high)
