"""Batches that are opened in threads while the threads are busy."""

from __future__ import annotations

import asyncio
import random

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.records.slices import QUICK_BYTES
from aiokproto.simulation import Simulation

LARGE = random.Random(1).randbytes(2 * QUICK_BYTES)


def test_busy_threads_delay_neither_deadlines_nor_other_partitions() -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster, Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await cluster.create_topic("large", 1)
            await cluster.create_topic("small", 1)
            await producer.send("large", LARGE)
            consumer = Consumer(
                "large", "small", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
            )
            async with consumer:
                simulation.threads.hold()
                began = simulation.time()
                assert await asyncio.wait_for(consumer.poll(2000), 60) == []
                assert simulation.time() - began < 2.5
                await producer.send("small", b"x")
                assert [record.value for record in await asyncio.wait_for(consumer.poll(5000), 60)] == [b"x"]
                simulation.threads.release()
                assert [record.value for record in await consumer.poll(5000)] == [LARGE]
                assert await consumer.poll(2000) == [], "it is opened once"

    simulation.run(main())


def test_the_batch_of_a_cancelled_call_is_returned_by_the_next_one() -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster, Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await cluster.create_topic("large", 1)
            for _ in range(2):
                await producer.send("large", LARGE)
            async with Consumer(
                "large", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
            ) as consumer:
                simulation.threads.hold()
                for _ in range(3):
                    call = asyncio.ensure_future(anext(consumer))
                    await asyncio.sleep(2)
                    call.cancel()
                    await asyncio.wait([call])
                simulation.threads.release()
                assert [(await anext(consumer)).offset for _ in range(2)] == [0, 1]

    simulation.run(main())
