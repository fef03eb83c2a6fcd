"""What an object keeps alive."""

from __future__ import annotations

import asyncio
import gc
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, asyncio.AbstractEventLoop)
"""Objects of the program and not of the object. An event loop keeps cancelled timers for a while."""


def reachable_bytes(*roots: Any) -> int:
    """Return the bytes of all objects that can be reached, without the program's own."""
    gc.collect()
    seen: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, _SHARED):
            seen[id(each)] = each
            waiting += gc.get_referents(each)
    return sum(map(sys.getsizeof, seen.values()))
