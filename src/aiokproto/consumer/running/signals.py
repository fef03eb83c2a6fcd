"""SIGTERM and SIGINT end a run, while it lasts."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiokproto.errors import ConfigurationError

log = logging.getLogger("aiokproto.consumer")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signals_handled(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` for SIGTERM and SIGINT instead of what handled them before, and restore that at the end.

    A handler that was added to the event loop itself cannot be restored, as asyncio only tells whether there was one:
    that is logged, and the signal has its default effect afterwards. The Python handler by which the loop hears of the
    signal is not restored either: nothing would happen any more.

    Raises:
        ConfigurationError: Signals cannot be handled here.
    """
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}
    try:
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            try:
                of_loop = loop.remove_signal_handler(number)
                loop.add_signal_handler(number, stop)
            except (NotImplementedError, RuntimeError, ValueError) as error:
                raise ConfigurationError(
                    "handle_signals=True needs the main thread and, as on Windows, an event loop with signal handlers; "
                    "call stop_run() from your own handler"
                ) from error
            if of_loop:
                log.warning(
                    "run: handle_signals has replaced the event loop's handler of %s, which cannot be restored: add it "
                    "again after run(), or call stop_run() in it",
                    number.name,
                )
            before[number] = None if of_loop else handler
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            # None also if it was not installed from Python, and cannot be restored from it.
            if handler is not None:
                signal.signal(number, handler)
