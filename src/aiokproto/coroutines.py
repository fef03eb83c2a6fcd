"""Whether a function of the application has to be awaited."""

from __future__ import annotations

from functools import partial
from inspect import iscoroutinefunction


def is_async(function: object) -> bool:
    """Return whether it is a coroutine function: also for a partial of one, and for an object with ``__call__``."""
    while isinstance(function, partial):
        function = function.func
    if iscoroutinefunction(function):
        return True
    # Of the class, as calling an object looks there; `type.__call__` makes no class a coroutine function.
    return iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004
