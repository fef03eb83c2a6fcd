"""Members of the Java client in the same group: either side leads, with every assignor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiokproto.consumer import Consumer
from aiokproto.types import TopicPartition
from tests.clusters import BehaviourCluster
from tests.java.members import JavaMembers, java_members
from tests.timeouts import LONG_TIMEOUT

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SIZES = {"a": 5, "b": 4}
EAGER = ("range", "cooperative-sticky")
"""The default of both clients."""
BACK = ("cooperative-sticky", "range")
"""The assignors of a change between cooperative rebalancing and range."""


class MixedGroup:
    """A group with members of both clients.

    Attributes:
        revoked: What each of our members had to revoke, since it was last cleared.
    """

    def __init__(self, cluster: BehaviourCluster, topic: str, java: JavaMembers, group: str) -> None:
        self.revoked: dict[str, set[TopicPartition]] = {}
        self._cluster = cluster
        self._topics = {f"{topic}.{name}": size for name, size in SIZES.items()}
        self._group = group
        self._java = java
        self._python: dict[str, Consumer] = {}

    async def create_topics(self) -> None:
        for name, size in self._topics.items():
            await self._cluster.create_topic(name, partitions=size)

    async def start(self, name: str, *assignors: str) -> None:
        """Start a member: of Java, if its name says so."""
        servers = self._cluster.bootstrap_servers
        if name.startswith("java"):
            self._java.start(name, servers, self._group, assignors, list(self._topics))
            return
        options: dict[str, Any] = {"heartbeat_interval_ms": 100, "partition_assignment_strategy": assignors}
        consumer = Consumer(bootstrap_servers=servers, group_id=self._group, **options)
        self.revoked[name] = set()
        consumer.subscribe(*self._topics, on_revoked=self.revoked[name].update)
        await consumer.start()
        self._python[name] = consumer

    async def stop(self, name: str) -> None:
        if name.startswith("java"):
            await self._java.stop(name)
        else:
            await self._python.pop(name).close()

    async def stop_all(self) -> None:
        for name in [*self._python, *self._java.assigned]:
            await self.stop(name)

    @property
    def assigned(self) -> Mapping[str, set[TopicPartition]]:
        return {name: set(each.assignment()) for name, each in self._python.items()} | self._java.assigned

    async def settled(self, condition: Callable[[], bool] = lambda: True) -> Mapping[str, set[TopicPartition]]:
        """Wait until every partition has one owner, each member has some, and the condition holds."""
        everything = {TopicPartition(name, number) for name, size in self._topics.items() for number in range(size)}

        async def wait() -> None:
            while not (self._shared(everything) and condition()):
                await asyncio.gather(*(each.poll(timeout_ms=20) for each in self._python.values()))
                await asyncio.sleep(0)

        try:
            await asyncio.wait_for(wait(), LONG_TIMEOUT)
        except asyncio.TimeoutError:
            pytest.fail(f"the group does not settle: {self.assigned}")
        return self.assigned

    def _shared(self, everything: set[TopicPartition]) -> bool:
        owned = list(self.assigned.values())
        return all(owned) and sum(map(len, owned)) == len(everything) and set().union(*owned) == everything


@pytest.fixture
async def java() -> AsyncIterator[JavaMembers]:
    async with java_members() as members:
        yield members


def generations(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what our members said about each generation that they joined."""
    return [record.getMessage() for record in caplog.records if ": generation " in record.getMessage()]


@pytest.mark.parametrize("first", ["java-1", "python-1"])
async def test_both_clients_share_a_group_whichever_leads(
    cluster: BehaviourCluster, topic: str, java: JavaMembers, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The test runs with each assignor of both clients. One Java process has the members of all groups."""
    caplog.set_level(logging.INFO, "aiokproto.group")
    others = ("python-1", "java-2") if first == "java-1" else ("java-1", "python-2")
    for assignor in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        group = MixedGroup(cluster, f"{topic}.{assignor}", java, f"{topic}.{assignor}")
        await group.create_topics()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(group.stop_all)
            await group.start(first, assignor)
            before = await group.settled()
            for other in others:
                caplog.clear()
                await group.start(other, assignor)
                now = await group.settled()
                # The first member still leads, because it has computed the assignment.
                assert any("(leader)" in said for said in generations(caplog)) == (first == "python-1"), assignor
                if "sticky" in assignor:
                    assert all(now[name] <= before[name] for name in before), assignor
                before = now
            await group.stop(first)
            now = await group.settled()
            if "sticky" in assignor:
                assert all(before[name] <= now[name] for name in now), assignor


async def test_a_mixed_group_moves_to_cooperative_rebalancing_and_back_without_stopping(
    cluster: BehaviourCluster, topic: str, java: JavaMembers, caplog: pytest.LogCaptureFixture
) -> None:
    """Members restart one by one: first with both assignors, as by default, then with the cooperative one alone; and
    back the same way."""
    caplog.set_level(logging.INFO, "aiokproto.group")
    group = MixedGroup(cluster, topic, java, topic)
    await group.create_topics()

    def agreed(assignor: str) -> Callable[[], bool]:
        return lambda: f" with {assignor}:" in generations(caplog)[-1]

    async with AsyncExitStack() as stack:
        stack.push_async_callback(group.stop_all)
        names = ("python-1", "java-1", "python-2", "java-2")
        for name in names:
            await group.start(name, "range")
        await group.settled(agreed("range"))
        for assignors in (EAGER, ("cooperative-sticky",)):
            for name in names:
                await group.stop(name)
                await group.settled()
                await group.start(name, *assignors)
                await group.settled(agreed("range" if assignors == EAGER else "cooperative-sticky"))
        for revoked in group.revoked.values():
            revoked.clear()
        before = await group.settled()
        await group.start("java-3", "cooperative-sticky")
        now = await group.settled()
        for name, revoked in group.revoked.items():
            assert revoked == before[name] - now[name], "only what moves is revoked"
        await group.stop("java-3")
        # Go back the same way.
        for assignors, uses in ((BACK, "cooperative-sticky"), (("range",), "range")):
            for name in names:
                await group.stop(name)
                await group.settled()
                await group.start(name, *assignors)
                await group.settled(agreed(uses))
