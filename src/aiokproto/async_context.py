"""The answer to a plain ``with``, for context managers that need ``async with``."""

from __future__ import annotations

from typing import NoReturn


class AsyncContext:
    """A base class of asynchronous context managers: ``with`` raises an error that names ``async with``.

    Python's own error, that the object does not support the context manager protocol, suggests that there is no block
    at all.
    """

    __slots__ = ()

    def __enter__(self) -> NoReturn:
        raise TypeError(f"use `async with {type(self).__name__}(...)`: starting and closing need the event loop")

    def __exit__(self, *_: object) -> None:
        # Looked up before __enter__ is called, in all Python releases.
        raise AssertionError
