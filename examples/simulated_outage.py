"""A service and its brokers in virtual time: half a minute of an outage, tested in milliseconds."""

from __future__ import annotations

import asyncio
import logging
import time

from aiokproto import Cluster, Consumer, Producer
from aiokproto.simulation import Simulation

FLIGHTS = 100


async def write(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, request_timeout_ms=5_000) as producer:
        for number in range(FLIGHTS):
            await producer.send("flights", b"%d" % number)
            await asyncio.sleep(0.5)


async def read(servers: str) -> list[int]:
    found: list[int] = []
    async with Consumer(
        "flights", bootstrap_servers=servers, group_id="report", auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            found.append(int(record.value or b""))
            if len(found) == FLIGHTS:
                break
    return found


async def outage(simulation: Simulation) -> list[int]:
    async with Cluster(brokers=3) as cluster:
        await cluster.create_topic("flights", partitions=1, replication=3)
        writing = asyncio.create_task(write(cluster.bootstrap_servers))
        reading = asyncio.create_task(read(cluster.bootstrap_servers))
        await asyncio.sleep(10)
        for link in simulation.network.links():
            link.silence()
        await asyncio.sleep(30)
        for link in simulation.network.links():
            link.restore()
        await writing
        return await reading


def main() -> None:
    # Consumers warn of commits that find no broker.
    logging.getLogger("aiokproto").setLevel(logging.ERROR)
    begun = time.monotonic()
    simulation = Simulation(seed=1)
    found = simulation.run(outage(simulation))
    assert found == list(range(FLIGHTS)), "each flight once, in its order"
    print(f"{simulation.time():.0f} virtual seconds in {time.monotonic() - begun:.1f}: {len(found)} flights, each once")


if __name__ == "__main__":
    main()
