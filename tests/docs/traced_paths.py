"""Prints, as JSON, which functions a warm client calls for one record, in the order of their first calls.

``send`` is from ``Producer.send()`` to the acknowledgement, ``read`` from a Fetch response to the record that
``async for`` gives. It runs in a process of its own without the accelerator, because compiled functions are not traced.
The embedded broker has a thread of its own, so its functions are not traced, either.
"""

from __future__ import annotations

import asyncio
import json
import sys
from types import FrameType
from typing import Any

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, ThreadedCluster

RECORDS = 3


class Trace:
    """The functions of the package that are called in a ``with`` block."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str], None] = {}

    def __enter__(self) -> Trace:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event == "call" and module.startswith("aiokproto."):
            self.calls[module.removeprefix("aiokproto.").replace(".", "/"), frame.f_code.co_name] = None


async def main(bootstrap: str) -> None:
    sent, read = Trace(), Trace()
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(RECORDS):
            await producer.send("t", b"warm", partition=0)
        with sent:
            await producer.send("t", b"traced", partition=0)
        async with Consumer("t", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            for _ in range(RECORDS + 1):
                await anext(consumer)
            waiting = asyncio.ensure_future(anext(consumer))
            await asyncio.sleep(0)
            with read:
                # In another thread, which isn't traced. The Fetch in flight waits at the broker for this record.
                await asyncio.to_thread(asyncio.run, produce(bootstrap))
                await waiting
    sys.stdout.write(json.dumps({"send": list(sent.calls), "read": list(read.calls)}))


async def produce(bootstrap: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send("t", b"traced", partition=0)


if __name__ == "__main__":
    with ThreadedCluster(Broker()) as cluster:
        asyncio.run(main(cluster.bootstrap_servers))
