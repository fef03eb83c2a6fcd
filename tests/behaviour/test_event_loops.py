"""Clients and event loops: created before there is one, and in a process that was forked."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, ThreadedCluster
from tests.patience import PATIENCE

FORKING = """
import asyncio, os
from aiokproto import Broker, Producer

async def main():
    async with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send("t", b"parent")
        if not (child := os.fork()):
            try:
                asyncio.run(producer.send("t", b"child"))
            except BaseException as error:
                print(type(error).__name__, error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print((await producer.send("t", b"parent")).offset)

asyncio.run(main())
"""


def test_clients_that_are_created_before_there_is_an_event_loop_work() -> None:
    """As those of a module are, and again in another loop with new ones."""
    with ThreadedCluster(Broker()) as cluster:
        for offset in range(2):
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            consumer = Consumer("t", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")

            async def main(producer: Producer, consumer: Consumer, offset: int) -> None:
                async with producer:
                    assert (await producer.send("t", b"x", partition=0)).offset == offset
                    async with consumer:
                        assert (await anext(consumer)).offset == 0

            asyncio.run(main(producer, consumer, offset))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_client_in_a_forked_process_is_refused_and_the_parents_goes_on() -> None:
    """The child has no right to the parent's connections: what both write on them would be damaged."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    refused, offset = done.stdout.splitlines()
    assert refused.startswith("ConfigurationError this client was started in another event loop: ")
    assert offset == "1"
