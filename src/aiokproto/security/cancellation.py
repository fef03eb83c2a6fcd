"""Whose a cancellation is: an application's function can be cancelled on its own account."""

from __future__ import annotations

import asyncio
import sys


def is_cancelled() -> bool:
    """Return whether the current task was cancelled: if not, a CancelledError in it is an error of what it has called.

    Before Python 3.11 tasks do not tell: then every CancelledError counts as their own.
    """
    task = asyncio.current_task()
    return sys.version_info < (3, 11) or task is None or task.cancelling() > 0
