"""Groups that change their assignor while they are read, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from aiokproto.types import TopicPartition
from tests.behaviour.feed import fill
from tests.behaviour.test_groups import Place, Worker, everything, member, wait_for
from tests.clusters import BehaviourCluster

EAGER, BOTH, BACK = ("range",), ("range", "cooperative-sticky"), ("cooperative-sticky", "range")
COOPERATIVE = ("cooperative-sticky",)


async def test_a_group_moves_to_cooperative_rebalancing_and_back_while_it_is_read(
    cluster: BehaviourCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The members restart one by one, in two rounds each way. No two members own a partition, and every record is read
    once."""
    caplog.set_level(logging.INFO, "aiokproto.group")
    await cluster.create_topic(topic, partitions=4)
    seen: Counter[Place] = Counter()
    owners: Counter[TopicPartition] = Counter()
    news = asyncio.Event()
    workers: list[Worker] = []
    written = 0

    async def start(*assignors: str) -> None:
        reader = member(cluster, topic, group_protocol="classic", partition_assignment_strategy=assignors)

        def assigned(partitions: list[TopicPartition]) -> None:
            owners.update(partitions)
            assert max(owners.values(), default=0) <= 1, owners

        async def revoked(partitions: list[TopicPartition]) -> None:
            # The callback takes a while, and the next owner of the partitions has to wait for it.
            await reader.committed(*partitions)
            owners.subtract(partitions)

        reader.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
        workers.append(await Worker(reader, seen, news).start())

    def agreed() -> str:
        said = [
            record.getMessage() for record in caplog.records if f"{topic}-group: generation " in record.getMessage()
        ]
        return said[-1].split(" with ")[1].split(":")[0]

    def all_read() -> bool:
        return len(seen) == 4 * written

    try:
        for assignors, uses in (
            (EAGER, "range"),
            (BOTH, "range"),
            (COOPERATIVE, "cooperative-sticky"),
            (BACK, "cooperative-sticky"),
            (EAGER, "range"),
        ):
            for _ in range(3):
                feeding = asyncio.create_task(fill(cluster, topic, 20, range(4), start=written, per_batch=1))
                if len(workers) == 3:
                    await workers.pop(0).stop()
                await start(*assignors)
                await feeding
                written += 20
                await wait_for(news, all_read)
            assert agreed() == uses
        assert seen == Counter(everything(4, written))
    finally:
        await asyncio.gather(*(worker.stop() for worker in workers))
