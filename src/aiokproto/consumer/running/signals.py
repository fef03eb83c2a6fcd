"""SIGTERM and SIGINT end a run, while it lasts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiokproto.errors import ConfigurationError

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signals_handled(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` for SIGTERM and SIGINT instead of what handled them before, and restore that at the end.

    Handlers that were added to the event loop itself cannot be restored: asyncio has no way to ask for them.

    Raises:
        ConfigurationError: Signals cannot be handled here.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    added: list[signal.Signals] = []
    try:
        for number in _SIGNALS:
            try:
                loop.add_signal_handler(number, stop)
            except (NotImplementedError, RuntimeError, ValueError) as error:
                raise ConfigurationError(
                    "handle_signals=True needs the main thread and, as on Windows, an event loop with signal handlers; "
                    "call stop_run() from your own handler"
                ) from error
            added.append(number)
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)
            # None: the handler was not installed from Python, and cannot be restored from it.
            if (handler := before[number]) is not None:
                signal.signal(number, handler)
