"""A limit of the memory of a process, because an endless loop must not take the memory of the machine."""

from __future__ import annotations

import sys

MAX_BYTES = 8 << 30
"""Bytes of address space. A test of the suite takes far less, but threads and allocators reserve some."""


def limit_memory() -> None:
    """Let this process, and those that it starts, fail for lack of memory above the limit. Windows has none."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(
            resource.RLIMIT_AS, (MAX_BYTES if hard == resource.RLIM_INFINITY else min(MAX_BYTES, hard), hard)
        )
