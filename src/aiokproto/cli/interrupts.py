"""Ctrl-C in a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

INTERRUPTED = 130
"""The exit code of a command that SIGINT has ended, as shells report it: 128 and the signal's number."""


def interruptible(main: Callable[..., int]) -> Callable[..., int]:
    """Make a command end without a traceback when Ctrl-C interrupts it, with :data:`INTERRUPTED`."""

    @wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        try:
            return main(argv)
        except KeyboardInterrupt:
            return INTERRUPTED

    return run
