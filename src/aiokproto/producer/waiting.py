"""Wait for outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from aiokproto.errors import ConfigurationError

if TYPE_CHECKING:
    from aiokproto.producer.outcome import Outcome


async def wait_done(outcome: Outcome) -> None:
    """Wait until an outcome is known.

    Each caller waits for its own future. Cancelling a task cancels the future that it awaits, and that must not cancel
    the wait of other tasks.

    Raises:
        ConfigurationError: The producer runs in another event loop.
    """
    if outcome.done:
        return
    loop = asyncio.get_running_loop()
    if outcome.context.loop not in (None, loop):
        raise ConfigurationError("a delivery is awaited in another event loop than the producer's")
    future: asyncio.Future[None] = loop.create_future()
    wake = partial(_set, future)
    outcome.add_done_callback(wake)
    try:
        await future
    finally:
        # Once the outcome is known, its callbacks are already gone.
        if not outcome.done:
            outcome.remove_done_callback(wake)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def wait_all(outcomes: Iterable[Outcome], timeout: float | None) -> None:
    """Wait until all outcomes are known, or ``timeout`` (s) has passed."""
    pending = [outcome for outcome in outcomes if not outcome.done]
    if not pending:
        return
    left = len(pending)
    all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # One future serves all outcomes: asyncio.wait over thousands of futures would schedule a callback for each of them.
    def one_done() -> None:
        nonlocal left
        left -= 1
        if not left:
            _set(all_done)

    for outcome in pending:
        outcome.add_done_callback(one_done)
    try:
        # Unlike wait_for, asyncio.wait returns at the timeout without cancelling anything.
        await asyncio.wait((all_done,), timeout=timeout)
    finally:
        for outcome in pending:
            outcome.remove_done_callback(one_done)
        all_done.cancel()
