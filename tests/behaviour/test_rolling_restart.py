"""A rolling restart of all brokers, as for an upgrade: groups keep their assignments and lose no record."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.types import TopicPartition
from tests.behaviour.feed import fill
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

PARTITIONS, MEMBERS, RECORDS = 6, 3, 10


class Reader:
    """A member, what it has read, and what its callbacks were called with."""

    def __init__(self, consumer: Consumer, topic: str, seen: Counter[tuple[int, int]], news: asyncio.Event) -> None:
        self.events: list[tuple[str, int]] = []
        self.consumer = consumer
        self._seen, self._news = seen, news
        self.consumer.subscribe(
            topic, on_assigned=self._note("assigned"), on_revoked=self._note("revoked"), on_lost=self._note("lost")
        )

    def _note(self, name: str) -> Callable[[list[TopicPartition]], None]:
        def called(partitions: list[TopicPartition]) -> None:
            self.events.append((name, len(partitions)))
            self._news.set()

        return called

    async def read(self) -> None:
        async for record in self.consumer:
            self._seen[record.partition, record.offset] += 1
            self._news.set()


class Group:
    """The members of a group, and what they have read together."""

    def __init__(self, cluster: BehaviourCluster, topic: str, protocol: str, news: asyncio.Event) -> None:
        self.seen: Counter[tuple[int, int]] = Counter()
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": f"{topic}-{protocol}",
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
            # A broker waits for the session of a classic member. The other members get theirs from the broker.
            "session_timeout_ms": LONG_TIMEOUT * 1000,
        }
        self.members = [Reader(Consumer(**options), topic, self.seen, news) for _ in range(MEMBERS)]


@pytest.mark.exclusive
async def test_a_rolling_restart_causes_no_rebalance(cluster3: BehaviourCluster, topic: str) -> None:
    """Each broker restarts in turn, including the coordinators of a group of each protocol. Every record arrives
    once."""
    await cluster3.create_topic(topic, PARTITIONS, replication=3)
    news = asyncio.Event()
    groups = [Group(cluster3, topic, protocol, news) for protocol in ("classic", "consumer")]
    readers = [reader for group in groups for reader in group.members]

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            news.clear()
            waiting = asyncio.ensure_future(news.wait())
            await asyncio.wait([waiting, *reading], timeout=LONG_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            assert waiting.done(), "nothing happens any more"

    reading: list[asyncio.Task[None]] = []
    try:
        for reader in readers:
            await reader.consumer.start()
            reading.append(asyncio.create_task(reader.read()))
        await until(lambda: all(len(reader.consumer.assignment()) == PARTITIONS // MEMBERS for reader in readers))
        for reader in readers:
            reader.events.clear()
        expected: set[tuple[int, int]] = set()
        for number, node in enumerate(cluster3.broker_ids):
            await cluster3.stop_broker(node)
            start = number * RECORDS
            await fill(cluster3, topic, RECORDS, range(PARTITIONS), start=start)
            expected |= {(part, offset) for part in range(PARTITIONS) for offset in range(start, start + RECORDS)}
            await until(lambda: all(group.seen.keys() >= expected for group in groups))  # noqa: B023 - called at once
            await cluster3.start_broker(node)
        assert [group.seen for group in groups] == [Counter(expected)] * len(groups)
        assert [reader.events for reader in readers] == [[]] * len(readers)
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await asyncio.gather(*(reader.consumer.close() for reader in readers))
