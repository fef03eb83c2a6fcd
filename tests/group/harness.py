"""The only member of a group, in a task of its own, against a coordinator in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

from aiokproto.codec.schema import Request
from tests.group.fake import FakeCluster


class MemberHarness:
    """A member and the cluster that it uses. A subclass makes both.

    Attributes:
        heartbeats: The class of the group's heartbeat requests.
        collection: What the member takes its topics as.
    """

    heartbeats: ClassVar[type[Request[Any]]]
    collection: ClassVar[type] = tuple

    def __init__(self, cluster: Any, member: Any) -> None:
        self.cluster: FakeCluster = cluster
        self.member = member
        self.task: asyncio.Task[None] = asyncio.create_task(member.run())

    @property
    def beats(self) -> list[Any]:
        """The heartbeats that the member has sent."""
        return self.cluster.sent(self.heartbeats)

    def script(self, *responses: Any) -> None:
        """Set the responses to the next heartbeats."""
        self.cluster.next[self.heartbeats].extend(responses)

    async def subscribe(self, *topics: str) -> None:
        self.member.set_topics(self.collection(topics))
        await asyncio.sleep(1)


H = TypeVar("H", bound=MemberHarness)


@asynccontextmanager
async def running(harness: H, seconds: float = 0.1) -> AsyncIterator[H]:
    """Let the member run for some seconds, then use it; at the end nothing of it may be left."""
    await asyncio.sleep(seconds)
    try:
        yield harness
    finally:
        harness.task.cancel()
        await asyncio.wait([harness.task])
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
