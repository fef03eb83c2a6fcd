"""Clients and event loops: created before there is one, in a process that was forked, and when Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, ThreadedCluster
from tests.timeouts import LONG_TIMEOUT

FORKING = """
import asyncio, os
from aiokproto import Broker, Consumer, Producer

async def main():
    async with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000) as producer:
        await producer.post_many("t", [b"a", b"b", b"c"], partition=0)
        await producer.flush()
        # With a batch open, which needs nothing but an append.
        await producer.post("t", b"d", partition=0)
        async with Consumer("t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            records = aiter(consumer)
            await anext(records)
            if not (child := os.fork()):
                call = (lambda call: lambda: call().send(None))
                for call in (
                    call(lambda: producer.send("t", b"child", partition=0)),
                    lambda: producer.try_post("t", b"child", partition=0),
                    call(lambda: producer.post("t", b"child", partition=0).__await__()),
                    call(lambda: anext(records).__await__()),
                    call(lambda: anext(consumer)),
                    consumer.stop_run,
                ):
                    try:
                        print("taken", call(), flush=True)
                    except BaseException as error:
                        print(type(error).__name__, error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            sent = await producer.post("t", b"parent", partition=0)
            await producer.flush()
            print((await anext(records)).offset, (await sent).offset)

asyncio.run(main())
"""


READING = """
import asyncio, signal, sys
from aiokproto import Consumer

# What a process inherits that is started in the background of a shell is to ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    options = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with Consumer("t", bootstrap_servers=sys.argv[1], **options) as consumer:
        async for record in consumer:
            print(record.offset, flush=True)

asyncio.run(main())
"""


def test_clients_that_are_created_before_there_is_an_event_loop_work() -> None:
    """A module can create clients when it's imported; another loop then needs new ones."""
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
    """The child must not use the parent's connections, because what both write on them would be damaged."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=LONG_TIMEOUT,
        check=True,
    )
    *refused, offsets = done.stdout.splitlines()
    assert len(refused) == 6
    for text in refused:
        assert re.match(r"ConfigurationError this (producer|client) was started in another process, ", text), text
    assert offsets == "1 4"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.run() cancels the main task since Python 3.11")
def test_ctrl_c_ends_a_reading_loop_and_commits_what_it_has_finished() -> None:
    async def write(servers: str) -> None:
        async with Producer(bootstrap_servers=servers) as producer:
            for _ in range(3):
                await producer.send("t", b"x", partition=0)

    async def committed(servers: str) -> list[int]:
        async with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
            offsets = await consumer.committed(("t", 0))
            return [known.offset for known in offsets.values() if known is not None]

    with ThreadedCluster(Broker()) as cluster:
        asyncio.run(write(cluster.bootstrap_servers))
        program = [sys.executable, "-c", READING, cluster.bootstrap_servers]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LONG_TIMEOUT)
        assert errors.splitlines()[-1] == "KeyboardInterrupt"
        # The program may have been interrupted in the loop's body, after it wrote the line.
        assert asyncio.run(committed(cluster.bootstrap_servers)) in ([2], [3])
