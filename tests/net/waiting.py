"""Waiting for conditions, ports without a listener, and timers that run early."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

REST = 0.001


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds.

    The loop sleeps between two checks: busy waiting would slow down the threads and processes it waits for.
    """
    loop = asyncio.get_running_loop()
    while not condition():
        rested = loop.create_future()
        loop.call_later(REST, rested.set_result, None)
        await rested


@contextmanager
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 at which connections are refused until a `peer` listens there, and again after that.

    It is bound all the time, so that no other process is given it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port


@contextmanager
def early_timers(seconds: float) -> Iterator[None]:
    """Make the running loop's timers run up to ``seconds`` early, as with a clock of that resolution."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.BaseEventLoop):
        pytest.skip("timers run early on asyncio's own loops alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_clock_resolution", seconds)
        yield
