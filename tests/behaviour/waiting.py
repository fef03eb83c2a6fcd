"""Waiting for changes that a broker applies a little after it has responded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiokproto.consumer import Consumer
from aiokproto.types import TopicPartition
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

T = TypeVar("T")


async def until(ask: Callable[[], Awaitable[T]], done: Callable[[T], bool]) -> T:
    """Repeat a request until ``done`` accepts the response; return the last response after `LONG_TIMEOUT`."""
    # The machine's clock, because a test may have moved the loop's clock ahead of a real broker's.
    end = time.monotonic() + LONG_TIMEOUT
    while not done(response := await ask()) and time.monotonic() < end:
        await asyncio.sleep(0)
    return response


async def written(cluster: BehaviourCluster, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
    """Return the ends of the logs, up to which readers of committed records should read.

    The end that ``read_committed`` sees is too early: a commit is confirmed before its markers are in the partitions.
    """
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        return await consumer.end_offsets(*partitions)
