"""What to do about errors of the application's functions. Pure.

Every call of such a function is in a ``try`` whose ``except BaseException`` calls :func:`failure`, so calls that
succeed have no overhead. The caller decides what to do about the error.

Exceptions that end the program (``SystemExit``, ``KeyboardInterrupt``) are raised unchanged, as in asyncio's own tasks,
and so is a cancellation of the calling task. But a ``CancelledError`` may also come from something that the function
awaited and another task cancelled. That is treated like any other error: if it were passed on, it would end tasks that
weren't cancelled, and nothing would log it. In the same way, ``StopAsyncIteration`` would end the application's own
loop over records.
"""

from __future__ import annotations

from inspect import isawaitable
from types import CoroutineType

from aiokproto.texts import repr_of, text_of

ENDS_THE_PROGRAM = (SystemExit, KeyboardInterrupt)
"""Exceptions that are always raised unchanged."""

_ENDS_AN_ITERATION = (StopIteration, StopAsyncIteration)
"""Exceptions that would end the application's loop if ``__anext__`` passed them on, as if there were nothing more to
read."""


class CallbackError(Exception):
    """A function of the application raised something that isn't an ``Exception``, or that ends an iteration (see
    ``__cause__``), or returned a coroutine that won't be awaited.

    The cause is usually an ``asyncio.CancelledError`` of something that the function awaited, while the calling task
    itself wasn't cancelled.
    """


def failure(error: BaseException, what: str, *, awaited: bool = False) -> Exception:
    """Return the error that a call raised, as an ``Exception``. If it isn't one, wrap it in a :class:`CallbackError`.

    Call it in the ``except`` clause, in the task that made the call.

    Args:
        error: What was raised.
        what: The application's name for the function: ``"on_assigned"``.
        awaited: Whether the call was awaited. Only an awaited call can be cancelled from outside.

    Raises:
        BaseException: The error itself, if it ends the program, or the task that awaited the call.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, ENDS_THE_PROGRAM) or (awaited and _ends_the_task(error)):
        raise error
    return _wrapped(error, what)


def _wrapped(error: BaseException, what: str) -> CallbackError:
    wrapped = CallbackError(
        f"{what} raised {type(error).__name__}({text_of(error)}), and the task that called it goes on"
    )
    wrapped.__cause__ = error
    return wrapped


class calling:
    """Replace an exception in the block with what :func:`failure` returns. Too slow for code that runs for every
    record.

    An exception that ends an iteration becomes a :class:`CallbackError`, too.

    ::

        with calling("on_assigned", awaited=True):
            await on_assigned(partitions)
    """

    __slots__ = ("_awaited", "_what")

    def __init__(self, what: str, *, awaited: bool = False) -> None:
        self._what = what
        self._awaited = awaited

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, _ENDS_AN_ITERATION):
            raise _wrapped(error, self._what)
        if error is not None and not isinstance(error, Exception):
            raise failure(error, self._what, awaited=self._awaited) from error


def without_text(error: BaseException) -> str:
    """Name an error of a function that returns secrets, without its message, which may contain a secret, such as a
    vault's URL with a token in it.

    Raise your own error ``from`` it, so the application can still read the message.
    """
    if isinstance(error, CallbackError) and error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__} (its text is left out, as it may have a secret)"


def check_not_awaitable(result: object, what: str) -> None:
    """Raise if a function returned an awaitable that nothing would await.

    Raises:
        CallbackError: The result is a coroutine or another awaitable.
    """
    if result is None or not isawaitable(result):
        return
    if isinstance(result, CoroutineType):
        # Close it, or Python would also warn that it was never awaited.
        result.close()
    raise CallbackError(f"{what} returned {repr_of(result, 80)}, which is not awaited here: pass a plain function")


def _ends_the_task(error: BaseException) -> bool:
    # Import these here: only awaited calls need an event loop.
    from aiokproto.runtime.timeouts import CancelledError, in_task, is_cancelled

    # If a coroutine is closed along with its event loop, it raises GeneratorExit. If a task is running, GeneratorExit
    # can only come from the function.
    return (isinstance(error, CancelledError) and is_cancelled()) or (
        isinstance(error, GeneratorExit) and not in_task()
    )
