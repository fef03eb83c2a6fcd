"""What all asynchronous context managers have in common: what leaving the block raises, and the answer to ``with``."""

from __future__ import annotations

import logging
from abc import abstractmethod
from types import TracebackType
from typing import NoReturn

from aiokproto.errors import KafkaError
from aiokproto.texts import text_of

log = logging.getLogger("aiokproto")


class AsyncContext:
    """A base class of asynchronous context managers.

    An exception that leaves the block is raised whatever closing raises, because only it says what went wrong first; an
    error of closing is logged then. Without an exception in the block, an error of closing is raised. A cancellation
    while it closes is always raised.

    A plain ``with`` raises an error that names ``async with``. Python's own, that the object does not support the
    context manager protocol, suggests that there is no block at all.
    """

    __slots__ = ()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._leave(error)
        except Exception as failure:
            if error is None:
                raise
            # Log the traceback only if the error isn't one of this library: a callback of the application may have
            # raised it.
            log.error(
                "%s: its block was left by %s; closing raised %s: %s",
                type(self).__name__,
                type(error).__name__,
                type(failure).__name__,
                text_of(failure),
                exc_info=None if isinstance(failure, KafkaError) else failure,
            )

    @abstractmethod
    async def _leave(self, error: BaseException | None) -> None:
        """Close what the block has opened. ``error`` is what has left the block; None if it ended."""

    def __enter__(self) -> NoReturn:
        raise TypeError(f"use `async with {type(self).__name__}(...)`: starting and closing need the event loop")

    def __exit__(self, *_: object) -> None:
        # All Python releases look it up before __enter__ is called.
        raise AssertionError
