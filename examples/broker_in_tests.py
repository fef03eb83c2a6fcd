"""Testing a service without Docker or Java: the broker is a fixture that starts in milliseconds.

Run with ``pytest examples/broker_in_tests.py`` (pytest-asyncio), or as it is.
"""

import asyncio

from aiokproto import Broker, Cluster, Consumer, Producer


async def relay(bootstrap: str, count: int) -> None:
    """The service under test: copies records in upper case."""
    async with (
        Consumer("in", bootstrap_servers=bootstrap, group_id="relay", auto_offset_reset="earliest") as source,
        Producer(bootstrap_servers=bootstrap) as sink,
    ):
        done = 0
        async for record in source:
            await sink.send("out", (record.value or b"").upper(), key=record.key)
            done += 1
            if done == count:
                break


async def test_relay_copies_in_order() -> None:
    async with Broker() as broker:
        await broker.create_topic("in")
        await broker.create_topic("out")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for word in (b"a", b"b", b"c"):
                await producer.send("in", word)
        await relay(broker.bootstrap_servers, 3)
        async with Consumer(
            "out", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            got = [(await anext(consumer)).value for _ in range(3)]
        assert got == [b"A", b"B", b"C"]


async def test_a_leader_that_moves_loses_nothing() -> None:
    async with Cluster(brokers=3) as cluster:
        await cluster.create_topic("in", partitions=1, replication=3)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send("in", b"before")
            await cluster.move_leader("in", 0)
            where = await producer.send("in", b"after")
        assert where.offset == 1


async def main() -> None:
    await test_relay_copies_in_order()
    await test_a_leader_that_moves_loses_nothing()
    print("both pass")


if __name__ == "__main__":
    asyncio.run(main())
