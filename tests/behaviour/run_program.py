"""A program that handles records until it is killed: `python -m tests.behaviour.run_program SERVERS TOPIC FILE ORDER`.

Each record that is handled to completion is a line of the file, written before the handler returns.
"""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random

from aiokproto import Consumer, Record

PENDING, CONCURRENCY = 40, 8


async def main(servers: str, topic: str, file: str, order: str) -> None:
    random = Random()
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(record: Record) -> None:
        await asyncio.sleep(random.uniform(0.001, 0.01))
        # One write: the line of a killed process is there as a whole, or not at all.
        os.write(out, b"%d %d\n" % (record.partition, record.offset))

    consumer = Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"{topic}-group",
        group_instance_id="the only one",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=20,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
    )
    async with consumer:
        sys.stdout.write("started\n")
        sys.stdout.flush()
        await consumer.run(handle, concurrency=CONCURRENCY, order=order, max_pending_records=PENDING)  # type: ignore[call-overload]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
