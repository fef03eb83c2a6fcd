"""Members of groups that run in a task of their own, and what tests wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT


class AnyMember(Protocol):
    """What share and streams members have in common."""

    @property
    def state(self) -> str: ...
    @property
    def problem(self) -> str: ...
    async def run(self) -> None: ...
    async def leave(self, timeout_ms: float) -> None: ...


class RunningMember:
    """A member and its task; a base class for what a test notes of it."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def start(self, member: AnyMember) -> None:
        """Run the member."""
        self._member = member
        self.task = asyncio.create_task(member.run())

    def noted(self) -> object:
        """Return what has happened, for the text of a failure."""
        raise NotImplementedError

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition, which news of the member can make true. Raises what ends the member."""
        while not condition():
            self._news.clear()
            news = asyncio.create_task(self._news.wait())
            done, _ = await asyncio.wait([news, self.task], timeout=LONG_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            assert done, f"still {self._member.state}: {self._member.problem}; {self.noted()}"
            if self.task in done:
                self.task.result()

    async def stop(self) -> None:
        """End the task, and leave the group."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self._member.leave(5000)


M = TypeVar("M", bound=RunningMember)


@asynccontextmanager
async def running(cluster: BehaviourCluster, make: Callable[[ClusterClient], M], **options: Any) -> AsyncIterator[M]:
    """A member with a client of its own."""
    config = ClusterConfig.parse({"bootstrap_servers": cluster.bootstrap_servers, **options})
    async with ClusterClient(config) as client:
        made = make(client)
        try:
            yield made
        finally:
            await made.stop()
