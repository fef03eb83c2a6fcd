"""What the clients and the embedded broker take from the machine and from asyncio.

``runtime`` has the sources of nondeterminism, which a simulation replaces; ``timeouts`` has asyncio's timeouts, with
the cancellations that Python 3.10 would lose; ``coroutines`` calls the application's coroutine functions.
"""

from __future__ import annotations

from aiokproto.runtime.runtime import (
    SYSTEM,
    AddressInfo,
    Runtime,
    create_task,
    current,
    monotonic,
    thread_id,
    uniform,
    utc,
)

__all__ = [
    "SYSTEM",
    "AddressInfo",
    "Runtime",
    "create_task",
    "current",
    "monotonic",
    "thread_id",
    "uniform",
    "utc",
]
