"""Hedged requests: send to another broker when one is silent, and use the first response."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.runtime import create_task

T = TypeVar("T")

HEDGE_DELAY = 1.0
"""Seconds without a response after which the request goes to the next broker as well."""


async def first_response(
    nodes: Sequence[int], send: Callable[[int], Coroutine[Any, Any, T]], final: Callable[[KafkaError], bool]
) -> tuple[T | None, list[tuple[int, KafkaError]]]:
    """Send to one broker after another: to the next one when a broker fails, or is silent for :data:`HEDGE_DELAY`.

    This way a dead broker costs one second instead of a request timeout. Only for requests that any broker can respond
    to and that can be executed twice. Cancelling cancels all attempts.

    Args:
        nodes: Node ids, preferred ones first.
        send: Sends to one broker, with its own deadline.
        final: Returns whether an error would be the same at every broker. If so, it is raised at once.

    Returns:
        The first response (None if every broker failed), and the failures until then.

    Raises:
        ClientClosedError: One of the attempts was cancelled from outside, for example by code that cancels all tasks.
    """
    attempts: dict[asyncio.Task[T], int] = {}
    failures: list[tuple[int, KafkaError]] = []
    left = deque(nodes)
    try:
        while left or attempts:
            if left:
                node = left.popleft()
                attempts[create_task(send(node), name=f"aiokproto hedged request to broker {node}")] = node
            # asyncio.wait, unlike gather or as_completed, leaves the attempts running when the time is up. When no
            # broker is left to ask, only the attempts' own deadlines end the wait.
            await asyncio.wait(attempts, timeout=HEDGE_DELAY if left else None, return_when=asyncio.FIRST_COMPLETED)
            # Ask the next broker whether the wait ended by a failure or by the delay: there's no reason to wait after a
            # failure.
            for task in [task for task in attempts if task.done()]:
                node = attempts.pop(task)
                # The task was cancelled from outside. If this call itself were cancelled, it wouldn't get here.
                if task.cancelled():
                    raise ClientClosedError(f"the task {task.get_name()!r} of the client was cancelled")
                error = task.exception()
                if error is None:
                    return task.result(), failures
                if not isinstance(error, KafkaError) or final(error):
                    # This is a bug, or an error that every broker would return. Asking more brokers would only delay
                    # it.
                    raise error
                failures.append((node, error))
        return None, failures
    finally:
        # Await them: a task that outlived this call would use connections after the client is closed.
        await _cancel(attempts)


async def _cancel(tasks: dict[asyncio.Task[T], int]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            # Retrieve it, or asyncio logs an exception that was never retrieved.
            task.exception()
