"""The simulated network between clients and brokers: partitions, latency and bandwidth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from aiokproto.broker.clock import Clock, sleep


class _Slow(NamedTuple):
    node: int | None
    latency: float
    bytes_per_second: float | None

    def seconds(self, size: int) -> float:
        return self.latency + (size / self.bytes_per_second if self.bytes_per_second else 0.0)


class _Until:
    """Undoes a change at the end of a ``with`` block. The change is made earlier, so it also works without ``with``."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self._undo()


class Network:
    """Delays or holds back frames between the brokers and their sockets. Any thread can change it.

    The operating system still accepts connections and acknowledges bytes. Only whole frames are held back, after
    they're read or before they're sent.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._partitioned: frozenset[int] = frozenset()
        self._slow: tuple[_Slow, ...] = ()
        self._waiting: dict[asyncio.Future[None], int] = {}

    def partition(self, nodes: Iterable[int]) -> AbstractContextManager[None]:
        """Hold back all frames to and from these brokers until the end of the context."""
        isolated = frozenset(nodes)
        self._partitioned |= isolated
        return _Until(lambda: self._heal(isolated))

    def slow(self, node: int | None, latency: float, bytes_per_second: float | None) -> AbstractContextManager[None]:
        """Add latency, or limit the bandwidth, until the end of the context."""
        if latency < 0 or (bytes_per_second is not None and bytes_per_second <= 0):
            raise ValueError(
                f"latency={latency} must not be negative, and bytes_per_second={bytes_per_second} must be positive"
            )
        link = _Slow(node, latency, bytes_per_second)
        self._slow = (*self._slow, link)
        return _Until(lambda: self._remove_link(link))

    def clear(self) -> None:
        """Remove all partitions, latency and limits."""
        self._slow = ()
        self._heal(self._partitioned)

    async def transfer(self, node: int, size: int) -> None:
        """Wait until ``size`` bytes have passed to or from a broker."""
        for link in self._slow:
            if link.node in (None, node):
                await sleep(self._clock, link.seconds(size))
        # This is a loop because the node may be isolated again before this task runs.
        while node in self._partitioned:
            healed = asyncio.get_running_loop().create_future()
            self._waiting[healed] = node
            try:
                await healed
            finally:
                del self._waiting[healed]

    def _heal(self, nodes: frozenset[int]) -> None:
        self._partitioned -= nodes
        for future, node in list(self._waiting.items()):
            if node in nodes:
                future.get_loop().call_soon_threadsafe(_wake, future)

    def _remove_link(self, link: _Slow) -> None:
        self._slow = tuple(other for other in self._slow if other is not link)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
