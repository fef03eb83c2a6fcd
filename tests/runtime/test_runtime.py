"""An application's own random numbers are left alone."""

from __future__ import annotations

import random

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker


async def test_a_seeded_application_gets_its_own_numbers() -> None:
    before = random.getstate()
    async with Broker() as broker:
        await broker.create_topic("t", partitions=8, config={"segment.jitter.ms": 1000})
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(5):
                await producer.send("t", b"%d" % number)
        async with Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            found = {(await consumer.__anext__()).value for _ in range(5)}
        assert found == {b"0", b"1", b"2", b"3", b"4"}
    assert random.getstate() == before
