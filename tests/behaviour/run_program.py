"""A program that handles records until it is killed: `python -m tests.behaviour.run_program SERVERS TOPIC ORDER`.

ORDER is the order of ``run()``, or "loop" for ``async for``. It writes a line for each record, before the handler
returns or the loop requests the next record.
"""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random

from aiokproto import Consumer, Record

PENDING, CONCURRENCY = 40, 8


async def main(servers: str, topic: str, order: str) -> None:
    random = Random()

    async def handle(record: Record) -> None:
        # Sleep, so that handlers overlap and end in another order.
        for _ in range(random.randrange(50)):
            await asyncio.sleep(0)
        # Write the line at once, so that a killed process leaves the whole line or nothing.
        os.write(1, b"%d %d\n" % (record.partition, record.offset))

    consumer = Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"{topic}-group",
        group_instance_id="the only one",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=5,
        # The session timeout is longer than the broker's clock can leap, because a session that expires also has
        # records handled again.
        session_timeout_ms=1_800_000,
        heartbeat_interval_ms=200,
    )
    async with consumer:
        if order == "loop":
            async for record in consumer:
                await handle(record)
        await consumer.run(handle, concurrency=CONCURRENCY, order=order, max_pending_records=PENDING)  # type: ignore[call-overload]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
