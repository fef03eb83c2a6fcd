"""What all asynchronous context managers share: what leaving the block raises, and the error for a plain ``with``."""

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

    If an exception leaves the block, it is raised, and an error while closing is only logged: the first error is the
    one that matters. If there's no exception in the block, an error while closing is raised. A cancellation during
    closing is always raised.

    A plain ``with`` raises an error that suggests ``async with``. Python's own error says that the object does not
    support the context manager protocol, as if it couldn't be used in a block at all.
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
            # Log the traceback unless it's one of this library's errors: a callback of the application may have raised
            # it.
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
        """Close what the block opened. ``error`` is the exception that left the block, if any."""

    def __enter__(self) -> NoReturn:
        raise TypeError(f"use `async with {type(self).__name__}(...)`: starting and closing need the event loop")

    def __exit__(self, *_: object) -> None:
        # Never called, but Python looks it up before it calls __enter__.
        raise AssertionError
