"""Links between a client's host and a server: their latency, throughput and faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Protocol

from aiokproto.errors import ConfigurationError
from aiokproto.texts import counted

Address = tuple[str, int]


class SimulatedConnection(Protocol):
    """One end of a connection over a link."""

    def reset(self) -> None:
        """Reset the connection."""
        ...


class Direction:
    """One direction of a link.

    Attributes:
        latency: Minimum and maximum time that bytes are in transit (s).
        throughput: Bytes per second, shared by all connections of the link.
        silent: Whether nothing arrives. Bytes that are sent during the silence arrive when it ends: TCP retransmits
            them.
    """

    def __init__(self, random: Random, now: Callable[[], float]) -> None:
        self.latency = (0.0001, 0.001)
        self.throughput = math.inf
        self.silent = False
        self._random = random
        self._now = now
        self._busy_until = 0.0
        self._held: list[Callable[[], None]] = []

    def arrival(self, size: int, earliest: float) -> float:
        """Return when ``size`` bytes that are sent now will arrive, but at least ``earliest``: a connection keeps its
        bytes in order."""
        self._busy_until = max(self._busy_until, self._now()) + size / self.throughput
        return max(self._busy_until + self._random.uniform(*self.latency), earliest)

    def deliver(self, arrive: Callable[[], None]) -> None:
        """Call ``arrive`` now, or when the silence ends."""
        if self.silent:
            self._held.append(arrive)
        else:
            arrive()

    def restore(self) -> None:
        """End the silence, and deliver what was held back, in order."""
        self.silent = False
        held, self._held = self._held, []
        for arrive in held:
            arrive()


class Link:
    """The link between a client's host and a server's address. All connections between them use it.

    Attributes:
        to_server: The direction of requests.
        to_client: The direction of responses.
        reachable: Whether new connections can be made. If not, they are refused.
    """

    def __init__(self, client: str, server: Address, random: Random, now: Callable[[], float]) -> None:
        self._client = client
        self._server = server
        self.to_server = Direction(random, now)
        self.to_client = Direction(random, now)
        self.reachable = True
        self.connections: dict[SimulatedConnection, None] = {}

    def __repr__(self) -> str:
        # Each connection is listed with both ends until one of them has closed.
        facts = [counted((len(self.connections) + 1) // 2, "connection")]
        if not self.reachable:
            facts.append("new ones are refused")
        directions = {"server": self.to_server, "client": self.to_client}
        if silent := [end for end, direction in directions.items() if direction.silent]:
            facts.append(f"silent to {' and '.join(silent)}")
        # slow() limits both directions alike.
        if self.to_server.throughput != math.inf:
            facts.append(f"{self.to_server.throughput:g} bytes/s")
        return f"<Link {self._client} to {self._server[0]}:{self._server[1]}: {', '.join(facts)}>"

    def silence(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Drop everything, in one direction or both, without an error: connections seem to be alive until
        :meth:`restore`."""
        self.to_server.silent |= to_server
        self.to_client.silent |= to_client

    def reset(self) -> None:
        """Reset all connections: both ends get ``ConnectionResetError``, and bytes in transit are lost."""
        for transport in list(self.connections):
            transport.reset()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until :meth:`restore`."""
        self.reachable = False
        self.reset()

    def slow(self, bytes_per_second: float) -> None:
        """Limit the throughput in each direction. Infinity removes the limit.

        Raises:
            ConfigurationError: The throughput isn't positive. Use :meth:`silence` to stop all bytes.
        """
        # The condition isn't `<= 0`, which would be false for NaN.
        if not bytes_per_second > 0:
            raise ConfigurationError(
                f"bytes_per_second={bytes_per_second!r}: must be positive; silence() stops all bytes"
            )
        self.to_server.throughput = self.to_client.throughput = bytes_per_second

    def delay(self, least: float, most: float) -> None:
        """Set the latency in each direction, in seconds, for bytes sent after this call.

        Raises:
            ConfigurationError: ``0 <= least <= most`` isn't true, or ``most`` isn't finite.
        """
        if not 0 <= least <= most < math.inf:
            raise ConfigurationError(f"least={least!r}, most={most!r}: must be finite, and 0 <= least <= most")
        self.to_server.latency = self.to_client.latency = (least, most)

    def restore(self) -> None:
        """End all faults except :meth:`slow` and :meth:`delay`."""
        self.reachable = True
        self.to_server.restore()
        self.to_client.restore()
