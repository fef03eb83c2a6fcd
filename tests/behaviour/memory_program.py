"""A program that reads large records slowly: `python -m tests.behaviour.memory_program SERVERS TOPIC RECORDS BUDGET`.

It prints by how many bytes the memory of the process has grown at most.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

from aiokproto import Consumer


def most_memory() -> int:
    """The most bytes that this process has ever had in memory."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def main(servers: str, topic: str, records: int, budget: int) -> None:
    # A response could have all records at once, if the budget allowed it.
    limits: dict[str, Any] = {
        "fetch_buffer_bytes": budget,
        "fetch_max_bytes": 100_000_000,
        "max_partition_fetch_bytes": 1_000_000,
    }
    async with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest", **limits) as consumer:
        size = len((await anext(consumer)).value or b"")
        before = most_memory()
        for _ in range(records - 1):
            # Give the consumer time to fetch ahead as much as it will.
            for _ in range(50):
                await asyncio.sleep(0)
            assert len((await anext(consumer)).value or b"") == size
        sys.stdout.write(f"{most_memory() - before}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
