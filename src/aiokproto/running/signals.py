"""SIGTERM and SIGINT, which end all runs of an event loop with ``handle_signals``."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from aiokproto.errors import ConfigurationError

log = logging.getLogger("aiokproto.run")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Stop = Callable[[], None]


@contextmanager
def signals_handled(stop: Stop) -> Iterator[None]:
    """Call ``stop`` for SIGTERM and SIGINT instead of the former handlers, and restore these at the end.

    A signal stops all runs of the event loop, and the last one to end restores the former handlers. Handlers that were
    added to the event loop itself are restored if the loop exposes them, as asyncio's loops do. If it doesn't, this is
    logged, and the signal has its default effect afterwards.

    Raises:
        ConfigurationError: Signals cannot be handled here.
    """
    loop = asyncio.get_running_loop()
    handled = _HANDLED.get(loop)
    if handled is None:
        handled = _Handled(loop)
        _HANDLED[loop] = handled
    handled.stops.append(stop)
    try:
        yield
    finally:
        handled.stops.remove(stop)
        if not handled.stops:
            del _HANDLED[loop]
            handled.restore()


class _Handled:
    """The signal handlers of one event loop, from the start of the first run with ``handle_signals`` to the end of the
    last."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stops: list[Stop] = []
        self._loop = loop
        self._before: dict[signal.Signals, Callable[[], object] | None] = {}
        try:
            for number in _SIGNALS:
                self._before[number] = self._replace(number)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            self.restore()
            raise ConfigurationError(
                "handle_signals=True needs the main thread and, as on Windows, an event loop with signal handlers; "
                "call stop_run() from your own handler"
            ) from error

    def _replace(self, number: signal.Signals) -> Callable[[], object] | None:
        """Handle a signal. Return a function that restores the former handler, or None if that isn't possible."""
        loop, former = self._loop, signal.getsignal(number)
        # Only asyncio's own loops have this attribute. The Python handler that they install does nothing itself.
        handles: dict[int, Any] = getattr(loop, "_signal_handlers", None) or {}
        handle = handles.get(number)
        of_loop = loop.remove_signal_handler(number)
        loop.add_signal_handler(number, self._stop_all)
        if not of_loop:
            # It's None if the handler wasn't installed from Python, and so cannot be restored.
            return None if former is None else lambda: signal.signal(number, former)
        if handle is not None:
            return lambda: loop.add_signal_handler(number, handle._callback, *handle._args)
        log.warning(
            "run: handle_signals has replaced the event loop's handler of %s, which cannot be restored: add it again "
            "after run(), or call stop_run() in it",
            number.name,
        )
        return None

    def _stop_all(self) -> None:
        # Make a copy: a run may end during this call.
        for stop in list(self.stops):
            stop()

    def restore(self) -> None:
        for number, restore in self._before.items():
            self._loop.remove_signal_handler(number)
            if restore is not None:
                restore()


_HANDLED: WeakKeyDictionary[asyncio.AbstractEventLoop, _Handled] = WeakKeyDictionary()
