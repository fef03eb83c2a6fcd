"""The clients' and the embedded broker's interface to the machine and to asyncio.

``runtime`` provides the sources of nondeterminism, which a simulation replaces; ``timeouts``, asyncio's timeouts,
without losing cancellations on Python 3.10; and ``coroutines``, calls of the application's coroutine functions.
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
