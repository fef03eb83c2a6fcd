"""What a call of the application's code raises. Pure.

Every call of such a function stands in a ``try`` whose ``except BaseException`` calls :func:`failure`, so that the
usual path costs nothing. The caller decides what to do about the error.

Exceptions that end the program (``SystemExit``, ``KeyboardInterrupt``) pass, as in asyncio's own tasks, and so does a
cancellation of the task that calls. A ``CancelledError`` may also come from something that the function waited for and
another task cancelled. Such an error is like any other. Passed on, it would end tasks that weren't cancelled, and
nothing would log it. ``StopAsyncIteration`` would end the application's own loop over records in the same way.
"""

from __future__ import annotations

from inspect import isawaitable
from types import CoroutineType

from aiokproto.texts import repr_of, text_of

ENDS_THE_PROGRAM = (SystemExit, KeyboardInterrupt)
"""Exceptions that pass through as they are, whatever function raised them."""

_ENDS_AN_ITERATION = (StopIteration, StopAsyncIteration)
"""Exceptions that, passed on by ``__anext__``, would end the application's loop as if there were nothing more to
read."""


class CallbackError(Exception):
    """A function of the application has raised something that isn't an ``Exception``, or that ends an iteration, which
    is the cause; or it has returned a coroutine where nothing is awaited.

    Most often the cause is an ``asyncio.CancelledError`` of something that the function waited for: the task that
    called it wasn't cancelled.
    """


def failure(error: BaseException, what: str, *, awaited: bool = False) -> Exception:
    """Return what a call has raised as an ``Exception``: itself if it is one, else a :class:`CallbackError`.

    Call it in the ``except`` clause, in the task that made the call.

    Args:
        error: What was raised.
        what: The function, as the application knows it: ``"on_assigned"``.
        awaited: Whether the call was awaited. Only then can it be cancelled from outside.

    Raises:
        BaseException: The error itself, if it ends the program, or the task that has awaited.
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
    """Raise an exception of the block as :func:`failure` returns it. It isn't meant for code that runs once for each
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
    """Name an error of a function that returns secrets, without its text, which may have one, such as a vault's URL
    with a token in it.

    Raise yours ``from`` it, so that the application has the text.
    """
    if isinstance(error, CallbackError) and error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__} (its text is left out, as it may have a secret)"


def check_not_awaitable(result: object, what: str) -> None:
    """Raise if a result would have to be awaited where nothing is awaited.

    Raises:
        CallbackError: It is a coroutine or another awaitable.
    """
    if result is None or not isawaitable(result):
        return
    if isinstance(result, CoroutineType):
        # Await it: otherwise it would be reported a second time.
        result.close()
    raise CallbackError(f"{what} returned {repr_of(result, 80)}, which is not awaited here: pass a plain function")


def _ends_the_task(error: BaseException) -> bool:
    # Import it here: only awaited calls need an event loop.
    from aiokproto.runtime.timeouts import CancelledError, in_task, is_cancelled

    # A coroutine raises GeneratorExit if it is closed with its event loop; while the task runs, only the function does.
    return (isinstance(error, CancelledError) and is_cancelled()) or (
        isinstance(error, GeneratorExit) and not in_task()
    )
