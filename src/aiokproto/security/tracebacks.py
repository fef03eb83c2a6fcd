"""Tracebacks without frames that hold secrets in local variables. Pure.

Some tools show the variables of every frame in a traceback (Sentry, Rich, ``traceback`` with ``capture_locals``). Code
that reads options, loads keys or authenticates has secrets in its variables. So its frames are removed from errors,
which instead name the option, mechanism, user and broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from aiokproto.errors import ConfigurationError, KafkaError

C = TypeVar("C", bound=Callable[..., Any])
E = TypeVar("E", bound=BaseException)

_PACKAGE = __name__.partition(".")[0]


def without_frames(error: E) -> E:
    """Remove this package's frames from an error and its causes. The frames of the application's functions stay."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            current.__traceback__ = _after_own(current.__traceback__)
            pending += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]
    return error


def _after_own(traceback: TracebackType | None) -> TracebackType | None:
    """Return the frames after the last one of this package."""
    after, frame = traceback, traceback
    while frame is not None:
        if str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
            after = frame.tb_next
        frame = frame.tb_next
    return after


def hiding_options(init: C) -> C:
    """Make a constructor raise errors without the frames that hold its options in local variables."""

    @wraps(init)
    def hidden(*args: Any, **named: Any) -> Any:
        try:
            return init(*args, **named)
        except ConfigurationError as error:
            without_frames(error)
            # Clear the variables of this frame, which is the only one that remains.
            del args, named
            raise error

    return cast("C", hidden)


def hiding_frames(function: C) -> C:
    """Make a coroutine function raise errors without the frames of this package, even when it's cancelled.

    Errors that are bugs keep all frames.
    """

    @wraps(function)
    async def hidden(*args: Any, **named: Any) -> Any:
        try:
            return await function(*args, **named)
        except BaseException as error:
            if isinstance(error, KafkaError) or not isinstance(error, Exception):
                without_frames(error)
            raise error

    return cast("C", hidden)
