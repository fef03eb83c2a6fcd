"""A program that reads bombs with one reader, and prints for each how much its memory grew: see ``test_bombs``.

``python -m tests.memory.reading_bombs READER [COUNT]``
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Broker, Cluster, Consumer, ShareConsumer
from aiokproto.broker.log.stored import first_at_time, is_quick, open_stored
from aiokproto.broker.metadata.internal_topics import read_internal_topic
from aiokproto.consumer import FetchedBatch
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.records import BatchRecord, encode
from aiokproto.records.batch import CONTROL
from aiokproto.records.compression import chunks
from aiokproto.records.patch import update_crc
from aiokproto.records.record import read_slice
from aiokproto.records.slices import QUICK_RECORDS, SLICE_HEADERS
from tests.records.bombs import MIB, bombs
from tests.records.bombs import bombs as all_bombs
from tests.simulation.sharing import OPTIONS, configure

MAX_CALLS = 2
"""How often an application reads of a bomb, before it seeks past it."""


class Steps:
    """What the thread of the event loop decoded in one call: work, not time."""

    def __init__(self) -> None:
        self.records = self.headers = self.bytes = 0
        self._read, self._chunks = read_slice, chunks
        patch = pytest.MonkeyPatch()
        patch.setattr("aiokproto.records.slices.read_slice", self.read_slice)
        patch.setattr("aiokproto.records.batch.chunks", self.chunks)

    def read_slice(self, data: Any, *args: Any) -> Any:
        found = self._read(data, *args)
        if threading.current_thread() is threading.main_thread():
            self.records = max(self.records, len(found[0]))
            self.headers = max(self.headers, sum(len(getattr(one, "headers", None) or ()) for one in found[0]))
            self.bytes = max(self.bytes, found[1])
        return found

    def chunks(self, *args: Any) -> Any:
        for chunk in self._chunks(*args):
            if threading.current_thread() is threading.main_thread():
                self.bytes = max(self.bytes, len(chunk))
            yield chunk


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def begin() -> int:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


async def poll(consumer: Consumer) -> int:
    return len(await consumer.poll(500, 10))


async def iterate(consumer: Consumer) -> int:
    found = 0
    async for _ in consumer.records(timeout_ms=500):
        found += 1
        if found == 100:
            break
    return found


async def next_batch(consumer: Consumer) -> FetchedBatch:
    # Both batches may have been delivered at once, so that nothing follows.
    return await asyncio.wait_for(anext(consumer.batches()), 0.5)


async def iterate_batches(consumer: Consumer) -> int:
    return sum(1 for _ in await next_batch(consumer))


async def arrow(consumer: Consumer) -> int:
    return len((await next_batch(consumer)).to_arrow(headers=True))


async def arrow_batches(consumer: Consumer) -> int:
    return sum(map(len, (await next_batch(consumer)).to_arrow_batches(headers=True)))


CONSUMING = {
    "poll": poll,
    "iterate": iterate,
    "batches": iterate_batches,
    "arrow": arrow,
    "arrow_batches": arrow_batches,
}


@contextlib.asynccontextmanager
async def stored() -> AsyncIterator[tuple[Broker, list[tuple[str, bytes]]]]:
    """A broker with a topic of a partition for each bomb: the bomb, and one good record behind it."""
    found = list(bombs())
    async with Broker() as broker:
        await broker.create_topic("t", partitions=len(found))
        for number, (_, data) in enumerate(found):
            partition = broker._running.state.partition("t", number)
            partition.append(data, 0)
            partition.append(encode([BatchRecord(0, 0, None, b"good")]), 0)
        yield broker, found


async def consume(read: Callable[[Consumer], Any], grown: dict[str, Any]) -> None:
    async with stored() as (broker, found):
        options: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "max_record_bytes": 16 * MIB,
            "fetch_max_wait_ms": 20,
        }
        async with Consumer(auto_offset_reset="earliest", **options) as consumer:
            for number, (name, _) in enumerate(found):
                before = begin()
                consumer.assign(("t", number))
                consumer.seek(("t", number), 0)
                for _ in range(MAX_CALLS):
                    # Before Python 3.11, asyncio has a TimeoutError of its own.
                    with contextlib.suppress(KafkaError, asyncio.TimeoutError):
                        await read(consumer)
                end = broker._running.state.partition("t", number).log.end_offset
                consumer.seek(("t", number), end - 1)
                assert [record.value for record in await consumer.poll(20_000, 1)] == [b"good"], name
                grown[name] = status("VmHWM") - before


async def run(grown: dict[str, Any]) -> None:
    async with stored() as (broker, found):
        options: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "max_record_bytes": 16 * MIB,
            "fetch_max_wait_ms": 20,
        }
        for number, (name, _) in enumerate(found):
            before = begin()
            async with Consumer(auto_offset_reset="earliest", on_undecodable="skip", **options) as consumer:
                consumer.assign(("t", number))
                handled = 0

                async def handle(_: object, consumer: Consumer = consumer) -> None:
                    nonlocal handled
                    handled += 1
                    if handled == 100:
                        consumer.stop_run()

                with contextlib.suppress(KafkaError, asyncio.TimeoutError):
                    await asyncio.wait_for(consumer.run(handle), 0.3)
            grown[name] = status("VmHWM") - before


async def share(grown: dict[str, Any]) -> None:
    for name, data in bombs():
        async with Cluster(1, config=OPTIONS) as broker:
            await broker.create_topic("t")
            broker._running.state.partition("t", 0).append(data, 0)
            await configure(broker)
            before = begin()
            async with ShareConsumer(
                "t", group_id="g", bootstrap_servers=broker.bootstrap_servers, max_record_bytes=16 * MIB
            ) as consumer:
                with contextlib.suppress(KafkaError):
                    await consumer.poll(1_500, 10)
            grown[name] = status("VmHWM") - before


async def search(grown: dict[str, Any]) -> None:
    async with stored() as (broker, found):
        for number, (name, _) in enumerate(found):
            log = broker._running.state.partition("t", number).log
            before = begin()
            for batch in open_stored(log.read(0, 1 << 30)):
                # No record has that time, so the reader looks at all of them.
                look = partial(first_at_time, batch, 1 << 60, 0)
                with contextlib.suppress(KafkaError):
                    assert (look() if is_quick(batch) else await broker._running.opening.run(look)) is None
            grown[name] = status("VmHWM") - before


async def load(grown: dict[str, Any]) -> None:
    async with stored() as (broker, found):
        for number, (name, _) in enumerate(found):
            partition = broker._running.state.partition("t", number)
            before = begin()
            with contextlib.suppress(KafkaError):
                await read_internal_topic(partition, lambda *_: None, broker._running.opening)
            grown[name] = status("VmHWM") - before


def spark(grown: dict[str, Any]) -> None:
    from aiokproto.records.pieces import in_pieces
    from aiokproto.records.runs import decode_run

    for name, data in bombs():
        before = begin()
        with contextlib.suppress(KafkaError):
            run, rest = decode_run(data, max_record=16 * MIB)
            for number, piece in enumerate(in_pieces([run] if run else rest, 8 * MIB, 1 << 17)):
                piece.to_arrow("t", 0, headers=True)
                if number == MAX_CALLS:
                    break
                del piece
        grown[name] = status("VmHWM") - before


def produce(grown: dict[str, Any]) -> None:
    from aiokproto.broker.config.options import BrokerOptions, TopicOptions
    from aiokproto.broker.log.validation import check_records

    for name, data in bombs():
        sent = bytearray(data)
        if data[16] == 2:
            # What a producer has to write in its header; without the flag of control batches.
            sent[22] &= ~CONTROL
            struct.pack_into(">i", sent, 23, struct.unpack_from(">i", sent, 57)[0] - 1)
            update_crc(sent)
        before = begin()
        for options in ({"cleanup.policy": "compact"}, {"compression.type": "lz4"}):
            with contextlib.suppress(BrokerError):
                check_records(sent, TopicOptions(options, BrokerOptions({})), 9 if data[16] == 2 else 2, 0)
        grown[name] = status("VmHWM") - before


def tool(grown: dict[str, Any]) -> None:
    from aiokproto.cli.codec.record_sets import open_batches

    for name, data in bombs():
        before = begin()
        out = StringIO()
        for row in open_batches(data, "utf8"):
            json.dump(row, out)
        grown[name] = status("VmHWM") - before


def main(reader: str, count: int | None = None) -> None:
    if count is not None:
        pytest.MonkeyPatch().setitem(globals(), "bombs", lambda: islice(all_bombs(), count))
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    # Imports don't count, because they happen once.
    with contextlib.suppress(ImportError):
        import pyarrow  # noqa: F401 - for its effect
    grown: dict[str, Any] = {}
    steps = Steps()
    if reader in CONSUMING:
        asyncio.run(consume(CONSUMING[reader], grown))
    elif reader in ("run", "share", "search", "load"):
        asyncio.run(globals()[reader](grown))
    else:
        globals()[reader](grown)
    within = steps.records <= QUICK_RECORDS and steps.headers <= SLICE_HEADERS and steps.bytes <= 2 * MIB
    steps_taken = [steps.records, steps.headers, steps.bytes]
    json.dump({"grown": grown, "quick": within, "steps": steps_taken}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
