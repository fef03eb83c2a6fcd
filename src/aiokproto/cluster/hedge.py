"""Asking several brokers what any of them can answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from aiokproto.errors import KafkaError

T = TypeVar("T")

HEDGE_DELAY = 1.0
"""Seconds after which a broker counts as silent, and another one is asked as well."""


async def first_response(
    nodes: Sequence[int], ask: Callable[[int], Coroutine[Any, Any, T]], final: Callable[[KafkaError], bool]
) -> tuple[T | None, list[tuple[int, KafkaError]]]:
    """Ask one broker after the other: the next when one has failed, or has been silent for :data:`HEDGE_DELAY`.

    The first answer counts. A broker that is silent for long thus costs a second, not a request timeout.

    Args:
        nodes: The brokers, best first.
        ask: Asks one of them; has a deadline of its own.
        final: Whether a failure holds for all of them; it is raised at once.

    Returns:
        The answer (None if all have failed), and the failures so far.
    """
    asked: dict[asyncio.Task[T], int] = {}
    failures: list[tuple[int, KafkaError]] = []
    left = deque(nodes)
    try:
        while left or asked:
            if left:
                node = left.popleft()
                asked[asyncio.create_task(ask(node), name=f"aiokproto ask {node}")] = node
            await asyncio.wait(asked, timeout=HEDGE_DELAY if left else None, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in asked if task.done()]:
                node = asked.pop(task)
                error = task.exception()
                if error is None:
                    return task.result(), failures
                if not isinstance(error, KafkaError) or final(error):
                    raise error
                failures.append((node, error))
        return None, failures
    finally:
        await _give_up(asked)


async def _give_up(tasks: dict[asyncio.Task[T], int]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            # Retrieved, since nobody wants to know any more.
            task.exception()
