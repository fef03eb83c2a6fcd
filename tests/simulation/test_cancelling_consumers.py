"""Every public await of the consumer, cancelled at each of its suspensions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from aiokproto import Client, Consumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.schema import Request
from aiokproto.errors import ClientClosedError, ConfigurationError, DeadlineError
from aiokproto.simulation import Simulation
from aiokproto.types import Record, TopicPartition
from tests.simulation.cancelling import Suspensions, cancelled
from tests.simulation.writing import FIRST_TIME, Writer

PARTITIONS = 2
BATCHES = 30
MOST = 60
"""More suspensions than any call has."""

WHERE = TopicPartition("t", 0)
LONG_TIMEOUT = 20.0


class Reader:
    """A consumer and the records it has returned.

    Attributes:
        given: The offsets by partition, in the order in which they were returned.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.given: dict[int, list[int]] = defaultdict(list)
        self.consumer = Consumer(**options)
        self.consumer.subscribe("t")

    async def next(self) -> None:
        """Read one record. A cancelled call has returned nothing."""
        self._receive([await anext(self.consumer)])

    async def many(self) -> None:
        for record in await self.consumer.poll(5000, 7):
            self._receive([record])

    async def collect(self) -> None:
        """Collect records of several batches."""
        for record in await self.consumer.poll(5000, 40, min_records=25):
            self._receive([record])

    async def batch(self) -> None:
        self._receive(list(await anext(self.consumer.batches())))

    async def seek_and_read(self, seek: Callable[[Consumer], None]) -> None:
        """Seek in partition 0, which starts again, and read."""
        if WHERE in self.consumer.assignment():
            seek(self.consumer)
            self.given[0].clear()
        await self.position()

    async def position(self) -> None:
        """Get the position of a partition, which may not be assigned, or be held for a rebalance."""
        with suppress(ConfigurationError, DeadlineError):
            await self.consumer.position(WHERE, timeout_ms=1000)

    def _receive(self, records: list[Record]) -> None:
        for record in records:
            self.given[record.partition].append(record.offset)


Call = Callable[[Reader], Awaitable[object]]
CALLS: dict[str, Call] = {
    "anext": lambda reader: reader.next(),
    "poll": lambda reader: reader.many(),
    "collecting": lambda reader: reader.collect(),
    "batches": lambda reader: reader.batch(),
    "commit": lambda reader: reader.consumer.commit(),
    "committed": lambda reader: reader.consumer.committed(WHERE),
    "position": lambda reader: reader.position(),
    "seek_to_beginning": lambda reader: reader.seek_and_read(lambda consumer: consumer.seek_to_beginning(WHERE)),
    "seek_to_time": lambda reader: reader.seek_and_read(lambda consumer: consumer.seek_to_time(FIRST_TIME, WHERE)),
    "beginning_offsets": lambda reader: reader.consumer.beginning_offsets(WHERE),
    "end_offsets": lambda reader: reader.consumer.end_offsets(WHERE),
    "offsets_for_times": lambda reader: reader.consumer.offsets_for_times({WHERE: FIRST_TIME}),
    "partitions_for_topic": lambda reader: reader.consumer.partitions_for_topic("t"),
}
AT_ONCE = {"partitions_for_topic", "position", "commit", "seek_to_beginning", "seek_to_time"}
"""Calls that may have nothing to wait for, or nothing to do before the group has assigned something."""


async def started(cluster: Cluster, writer: Writer) -> Reader:
    for partition in range(PARTITIONS):
        for _ in range(BATCHES):
            writer.write(partition)
    writer.end_all()
    reader = Reader(options(cluster))
    await reader.consumer.start()
    return reader


def options(cluster: Cluster) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "max_partition_fetch_bytes": 3000,
        "heartbeat_interval_ms": 100,
        "session_timeout_ms": 3000,
        "partition_assignment_strategy": "range",
    }


def left() -> list[str]:
    mine = asyncio.current_task()
    names = [task.get_name() for task in asyncio.all_tasks() if task is not mine]
    return [name for name in names if name.startswith("aiokproto") and "broker" not in name]


async def once(simulation: Simulation, name: str, at: int, when: str) -> bool:
    """Cancel a call at a suspension, and check that nothing is lost or repeated. Return whether the call has that
    suspension."""
    async with Cluster(2, config={"group.min.session.timeout.ms": 500}) as cluster:
        await cluster.create_topic("t", PARTITIONS)
        writer = Writer(simulation.random, cluster, "t", PARTITIONS)
        reader = await started(cluster, writer)
        other: Consumer | None = None
        try:
            if when != "new":
                for _ in range(3):
                    await reader.next()
            if when == "rebalance":
                # The other member is joining, so this member has to give everything up, and gets a part of it again.
                other = Consumer("t", group_instance_id="other", **options(cluster))
                await other.start()
                await asyncio.sleep(0.15)
                await other.close()
            was_cancelled = await cancelled(Suspensions(), CALLS[name](reader), at)
            if when == "rebalance":
                await asyncio.sleep(4)
            wanted = {
                partition: [
                    offset for offset in sorted(writer.values[partition]) if (partition, offset) not in writer.aborted
                ]
                for partition in range(PARTITIONS)
            }
            while any(len(reader.given[partition]) < len(wanted[partition]) for partition in wanted):
                await asyncio.wait_for(reader.next(), LONG_TIMEOUT)
            assert dict(reader.given) == wanted
            for call in CALLS.values():
                if call not in (CALLS["anext"], CALLS["poll"], CALLS["batches"]):
                    await asyncio.wait_for(call(reader), LONG_TIMEOUT)
        finally:
            began = simulation.time()
            await reader.consumer.close(3000)
            assert simulation.time() - began < 3.5
        assert not left(), "closed, and nothing runs on"
    return was_cancelled


def at_every_suspension(run: Callable[[Simulation, int], Awaitable[bool]], *, least: int) -> None:
    """Run once for each suspension at which to cancel."""
    for at in range(1, MOST):
        simulation = Simulation(at)
        if not simulation.run(run(simulation, at)):
            assert at > least, "it suspends at all"
            return
    pytest.fail(f"it suspends more than {MOST} times")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("when", ["new", "at work", "rebalance"])
def test_a_call_cancelled_wherever_it_suspends(name: str, when: str) -> None:
    least = 0 if name in AT_ONCE or when != "new" else 1
    at_every_suspension(lambda simulation, at: once(simulation, name, at, when), least=least)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_starting_can_be_cancelled_wherever_it_suspends(group_id: str | None) -> None:
    async def start(simulation: Simulation, at: int) -> bool:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            consumer = Consumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id=group_id)
            was_cancelled = await cancelled(Suspensions(), consumer.start(), at)
            if was_cancelled:
                assert not left(), "nothing goes on"
                with pytest.raises(ClientClosedError):
                    await consumer.poll(0)
            await consumer.close()
            assert not left()
            return was_cancelled

    at_every_suspension(start, least=1)


@pytest.mark.parametrize("name", ["unsubscribe", "close"])
def test_an_end_can_be_cancelled_wherever_it_suspends(name: str) -> None:
    """Finished records may be committed or not. Another member continues from there, without a gap."""

    async def end(simulation: Simulation, at: int) -> bool:
        async with Cluster(1, config={"group.min.session.timeout.ms": 500}) as cluster:
            await cluster.create_topic("t", PARTITIONS)
            writer = Writer(simulation.random, cluster, "t", PARTITIONS)
            reader = await started(cluster, writer)
            for _ in range(5):
                await reader.next()
            call = reader.consumer.close(3000) if name == "close" else reader.consumer.unsubscribe()
            was_cancelled = await cancelled(Suspensions(), call, at)
            if name == "unsubscribe":
                await asyncio.sleep(1)
                assert not reader.consumer.assignment()
                reader.consumer.subscribe("t")
                await asyncio.wait_for(reader.next(), LONG_TIMEOUT)
            await reader.consumer.close(3000)
            assert not left()
            second = Reader(options(cluster))
            try:
                await second.consumer.start()
                for _ in range(10):
                    await asyncio.wait_for(second.next(), LONG_TIMEOUT)
            finally:
                await second.consumer.close(3000)
            for partition, offsets in second.given.items():
                visible = [
                    offset for offset in sorted(writer.values[partition]) if (partition, offset) not in writer.aborted
                ]
                seen = [offset for offset in visible if offset in reader.given[partition] + offsets]
                assert seen == visible[: len(seen)], "without a gap"
            return was_cancelled

    at_every_suspension(end, least=1)


@pytest.mark.parametrize(
    ("protocol", "describe"), [("classic", DescribeGroupsRequest), ("consumer", ConsumerGroupDescribeRequest)]
)
def test_a_close_that_is_cancelled_leaves_the_group_nevertheless(
    protocol: Any, describe: Callable[..., Request[Any]]
) -> None:
    """Nothing waits; otherwise the others would get the partitions only when the session expires."""

    async def end(simulation: Simulation, at: int) -> bool:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", PARTITIONS)
            consumer = Consumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", group_protocol=protocol)
            await consumer.start()
            while not consumer.assignment():
                await consumer.poll(100)
            began = simulation.time()
            was_cancelled = await cancelled(Suspensions(), consumer.close(3000), at)
            assert simulation.time() - began < 1
            assert not left()
            assert await members(cluster, describe) == []
            return was_cancelled

    at_every_suspension(end, least=1)


async def members(cluster: Cluster, describe: Callable[..., Request[Any]]) -> list[Any]:
    """Return the members of the group, once the broker has handled all earlier requests."""
    key = "groups" if describe is DescribeGroupsRequest else "group_ids"
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response: Any = await client.request(describe(**{key: ["g"]}))
        return list(response.groups[0].members)
