"""The way between clients and brokers: whole, parted, long or narrow."""

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
    """Undoes at the end of a ``with`` block what was done before it."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self._undo()


class Network:
    """What lies between the brokers' sockets and the brokers. It may be changed in any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._partitioned: frozenset[int] = frozenset()
        self._slow: tuple[_Slow, ...] = ()
        self._waiting: dict[asyncio.Future[None], int] = {}

    def partition(self, nodes: Iterable[int]) -> AbstractContextManager[None]:
        """Let nothing pass to and from these brokers, from now on until the end of the context."""
        cut = frozenset(nodes)
        self._partitioned |= cut
        return _Until(lambda: self._heal(cut))

    def slow(self, node: int | None, latency: float, bytes_per_second: float | None) -> AbstractContextManager[None]:
        """Have all take longer, from now on until the end of the context."""
        if latency < 0 or (bytes_per_second is not None and bytes_per_second <= 0):
            raise ValueError(f"latency={latency} and bytes_per_second={bytes_per_second} must be positive")
        link = _Slow(node, latency, bytes_per_second)
        self._slow = (*self._slow, link)
        return _Until(lambda: self._remove_link(link))

    def clear(self) -> None:
        """Be whole and quick again."""
        self._slow = ()
        self._heal(self._partitioned)

    async def transfer(self, node: int, size: int) -> None:
        """Return when ``size`` bytes have come through, to or from a broker."""
        for link in self._slow:
            if link.node in (None, node):
                await sleep(self._clock, link.seconds(size))
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
        self._slow = tuple(each for each in self._slow if each is not link)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
