"""Every public await of the share consumer, cancelled at each of its suspensions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokproto import ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.share_group_describe import ShareGroupDescribeRequest
from aiokproto.errors import ClientClosedError
from aiokproto.share import AcknowledgeOutcome, ShareRecord
from aiokproto.simulation import Simulation
from tests.simulation.cancelling import Suspensions, cancelled
from tests.simulation.environment import Environment
from tests.simulation.sharing import OPTIONS, configure
from tests.simulation.test_cancelling_consumers import at_every_suspension, left, members

PARTITIONS, RECORDS = 2, 12
LONG_TIMEOUT = 20.0


class Reader:
    """A share consumer, and the records it has returned.

    Attributes:
        given: The partition, offset and delivery count of each record.
        outcomes: The outcomes of acknowledgements.
    """

    def __init__(self, cluster: Cluster, mode: str = "implicit") -> None:
        self.given: list[tuple[int, int, int]] = []
        self.outcomes: list[AcknowledgeOutcome] = []
        self.consumer = ShareConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            acknowledgement_mode=mode,  # type: ignore[arg-type]
            max_poll_records=5,
            on_acknowledged=self.outcomes.extend,
        )

    async def next(self) -> None:
        self._receive([await anext(self.consumer)])

    async def many(self) -> None:
        self._receive(await self.consumer.poll(5000, 3))

    async def collect(self) -> None:
        self._receive(await self.consumer.poll(5000, 12, min_records=9))

    async def batch(self) -> None:
        self._receive(list(await anext(self.consumer.batches())))

    async def run(self) -> None:
        async def handle(record: ShareRecord) -> None:
            self._receive([record])
            await asyncio.sleep(0)

        running = asyncio.ensure_future(self.consumer.run(handle, concurrency=2))
        try:
            await asyncio.wait([running], timeout=0.1)
        finally:
            running.cancel()
            await asyncio.wait([running])

    def _receive(self, records: list[ShareRecord]) -> None:
        self.given += [(record.partition, record.offset, record.delivery_count) for record in records]


Call = Callable[[Reader], Awaitable[object]]
CALLS: dict[str, Call] = {
    "anext": lambda reader: reader.next(),
    "poll": lambda reader: reader.many(),
    "collecting": lambda reader: reader.collect(),
    "batches": lambda reader: reader.batch(),
    "commit": lambda reader: reader.consumer.commit(),
    "run": lambda reader: reader.run(),
}


async def fill(simulation: Simulation, cluster: Cluster) -> None:
    """Write records, one batch each."""
    await cluster.create_topic("t", PARTITIONS)
    await configure(cluster)
    environment = Environment(simulation, cluster, "t")
    for number in range(RECORDS):
        environment.append(number % PARTITIONS, b"%d" % number)


async def once(simulation: Simulation, name: str, at: int, when: str) -> bool:
    """Cancel a call at a suspension, and check that each record is delivered once, and accepted. Return whether the
    call has that suspension."""
    async with Cluster(2, config=OPTIONS) as cluster:
        await fill(simulation, cluster)
        reader = Reader(cluster)
        await reader.consumer.start()
        try:
            if when == "at work":
                for _ in range(3):
                    await reader.next()
            was_cancelled = await cancelled(Suspensions(), CALLS[name](reader), at)
            while len(reader.given) < RECORDS:
                await asyncio.wait_for(reader.next(), LONG_TIMEOUT)
            expected = [(number % PARTITIONS, number // PARTITIONS, 1) for number in range(RECORDS)]
            assert sorted(reader.given) == sorted(expected), "each record once"
            await asyncio.wait_for(reader.consumer.commit(), LONG_TIMEOUT)
        finally:
            began = simulation.time()
            await reader.consumer.close(3000)
            assert simulation.time() - began < 3.5
        assert all(each.ok for each in reader.outcomes)
        accepted = sum(each.last_offset - each.first_offset + 1 for each in reader.outcomes)
        assert accepted == RECORDS, "one outcome each"
        assert not left(), "closed, and nothing runs on"
    return was_cancelled


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("when", ["new", "at work"])
def test_a_call_cancelled_wherever_it_suspends(name: str, when: str) -> None:
    at_every_suspension(lambda simulation, at: once(simulation, name, at, when), least=0)


def test_starting_can_be_cancelled_wherever_it_suspends() -> None:
    async def start(simulation: Simulation, at: int) -> bool:
        async with Cluster(1, config=OPTIONS) as cluster:
            await fill(simulation, cluster)
            consumer = Reader(cluster).consumer
            was_cancelled = await cancelled(Suspensions(), consumer.start(), at)
            if was_cancelled:
                assert not left(), "nothing goes on"
                with pytest.raises(ClientClosedError):
                    await consumer.poll(0)
            await consumer.close()
            assert not left()
            return was_cancelled

    at_every_suspension(start, least=1)


def test_closing_can_be_cancelled_wherever_it_suspends() -> None:
    """Acknowledged records may be done or not. The others are delivered to another member."""

    async def end(simulation: Simulation, at: int) -> bool:
        async with Cluster(1, config=OPTIONS) as cluster:
            await fill(simulation, cluster)
            reader = Reader(cluster, "explicit")
            await reader.consumer.start()
            records = []
            for _ in range(4):
                records.append(await anext(reader.consumer))
            reader.consumer.accept(records[0])
            was_cancelled = await cancelled(Suspensions(), reader.consumer.close(3000), at)
            await reader.consumer.close(3000)
            assert not left()
            assert len(reader.outcomes) == 1, "the acknowledgement has an outcome"
            assert await members(cluster, ShareGroupDescribeRequest) == [], "it has left the group"
            other = Reader(cluster)
            await other.consumer.start()
            accepted = (records[0].partition, records[0].offset)
            wanted = {(number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS)} - {accepted}
            while {each[:2] for each in other.given} - {accepted} != wanted:
                await asyncio.wait_for(other.next(), LONG_TIMEOUT)
            if reader.outcomes[0].ok:
                assert accepted not in {each[:2] for each in other.given}
            await other.consumer.close(3000)
            return was_cancelled

    at_every_suspension(end, least=1)
