"""The way between a client's host and a server: how long it takes, how much it carries, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

INFINITY = float("inf")


class SimulatedConnection(Protocol):
    """One end of a connection that goes over a link."""

    def reset(self) -> None:
        """Break it."""
        ...


class Direction:
    """One of the two ways of a link.

    Attributes:
        latency: The least and most seconds that bytes are on their way.
        throughput: Bytes a second; all connections of the link share it.
        silent: Whether nothing arrives. What was sent meanwhile arrives when that ends, as TCP sends it again.
    """

    def __init__(self, random: Random, now: Callable[[], float]) -> None:
        self.latency = (0.0001, 0.001)
        self.throughput = INFINITY
        self.silent = False
        self._random = random
        self._now = now
        self._busy_until = 0.0
        self._held: list[Callable[[], None]] = []

    def arrival(self, size: int, earliest: float) -> float:
        """When ``size`` bytes that are sent now arrive, not before ``earliest``: a connection keeps its order."""
        self._busy_until = max(self._busy_until, self._now()) + size / self.throughput
        return max(self._busy_until + self._random.uniform(*self.latency), earliest)

    def deliver(self, arrive: Callable[[], None]) -> None:
        """Have something arrive, now or when the silence ends."""
        if self.silent:
            self._held.append(arrive)
        else:
            arrive()

    def restore(self) -> None:
        """End the silence: what was held arrives, in its order."""
        self.silent = False
        held, self._held = self._held, []
        for arrive in held:
            arrive()


class Link:
    """What is between a client's host and a server's address, whichever connections there are.

    Attributes:
        to_server: The way of requests.
        to_client: The way of responses.
        reachable: Whether new connections can be made. If not, they are refused.
    """

    def __init__(self, random: Random, now: Callable[[], float]) -> None:
        self.to_server = Direction(random, now)
        self.to_client = Direction(random, now)
        self.reachable = True
        self.connections: dict[SimulatedConnection, None] = {}

    def silence(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Let nothing through, in one way or both, and tell nobody: until :meth:`restore` connections look alive."""
        self.to_server.silent |= to_server
        self.to_client.silent |= to_client

    def reset(self) -> None:
        """Break all connections: both ends get ``ConnectionResetError``, and what was on its way is lost."""
        for transport in list(self.connections):
            transport.reset()

    def cut(self) -> None:
        """Break all connections, and refuse new ones until :meth:`restore`."""
        self.reachable = False
        self.reset()

    def slow(self, bytes_per_second: float) -> None:
        """Carry no more than this, in each way."""
        self.to_server.throughput = self.to_client.throughput = bytes_per_second

    def delay(self, least: float, most: float) -> None:
        """Take this many seconds for what is sent from now on, in each way."""
        self.to_server.latency = self.to_client.latency = (least, most)

    def restore(self) -> None:
        """End all faults but :meth:`slow` and :meth:`delay`."""
        self.reachable = True
        self.to_server.restore()
        self.to_client.restore()
