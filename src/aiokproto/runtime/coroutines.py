"""Helpers for async functions of the application. Pure."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from inspect import iscoroutinefunction
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def is_async(function: object) -> bool:
    """Return whether ``function`` is a coroutine function, a partial of one, or an object whose ``__call__`` is one."""
    while isinstance(function, partial):
        function = function.func
    if iscoroutinefunction(function):
        return True
    # Look in the class, as Python does when it calls an object. (For a class that's `type.__call__`, which isn't
    # async.)
    return iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004


async def resumed(started: Coroutine[Any, Any, T], waits_for: Any) -> T:
    """Await a coroutine that was started with ``waits_for = started.send(None)`` and is suspended there."""
    return await _going_on(started, waits_for)


@coroutine
def _going_on(started: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the coroutine
                waits_for = started.throw(error)
            else:
                waits_for = started.send(sent)
    except StopIteration as done:
        result: T = done.value
        return result
