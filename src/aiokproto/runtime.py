"""What makes one run differ from the next, beside the event loop: the wall clock, names of hosts, and randomness."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random, SystemRandom
from typing import Any
from uuid import UUID

thread_id = threading.get_ident
"""The running thread's id."""

AddressInfo = tuple[Any, ...]
"""What ``socket.getaddrinfo`` says of an address: family, type, protocol, canonical name, address."""


class Runtime:
    """Where clients and the embedded broker find what an event loop does not give them.

    Time, timers, connections and threads come from the loop. An event loop with a ``runtime`` of its own decides about
    the rest, too: see :mod:`aiokproto.simulation`.

    Attributes:
        random: Jitter, partitions for records without a key, ids. By default not the functions of :mod:`random`: an
            application that seeds those gets its own numbers, whatever a client does in between, and a forked process
            does not repeat its parent's.
    """

    def __init__(self, random: Random) -> None:
        self.random = random

    def wall(self) -> int:
        """The time that records and logs are stamped with, in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def cpu_time(self) -> float:
        """Seconds that the thread has worked: how long a task has kept the event loop from others."""
        return time.thread_time()

    def getaddrinfo(self, threads: ThreadPoolExecutor | None, host: str, port: int) -> Awaitable[list[AddressInfo]]:
        """The addresses of a host name, looked up in one of ``threads`` (None: the loop's own)."""
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return asyncio.get_running_loop().run_in_executor(threads, look_up)

    def uuid(self) -> UUID:
        """A random UUID (version 4)."""
        return UUID(int=self.random.getrandbits(128), version=4)


SYSTEM = Runtime(SystemRandom())
"""The machine's."""


def current() -> Runtime:
    """The running event loop's, or else the machine's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return SYSTEM
    found: Runtime = getattr(loop, "runtime", SYSTEM)
    return found


def uniform(low: float, high: float) -> float:
    """A random number between two, by the running event loop's :class:`Runtime`."""
    return current().random.uniform(low, high)
