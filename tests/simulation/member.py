"""A member of a group, from its start to its end, and a record of what all members received."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable
from typing import Any, TypeVar

from aiokproto import Consumer
from aiokproto.consumer import OffsetReset
from aiokproto.errors import DeadlineError, RecordDeserializationError
from aiokproto.simulation import Simulation
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition
from tests.simulation.environment import in_time
from tests.simulation.faults import Fault, stalled

SLACK = 1.0
"""Virtual seconds that a call may take beyond its deadline."""

T = TypeVar("T")
Offsets = dict[tuple[str, int], int | OffsetAndMetadata]


class Ledger:
    """The records that the members of a group received and processed.

    Attributes:
        processed: Offsets that some member has finished, by partition.
        values: The values of these records, because an unclean election may give their offsets to others.
        deliveries: How often each record was returned.
        owners: The members that read a partition according to their callbacks: it is assigned, and not yet revoked or
            lost.
    """

    def __init__(self) -> None:
        self.processed: dict[int, set[int]] = defaultdict(set)
        self.values: set[object] = set()
        self.deliveries: dict[tuple[int, int], int] = defaultdict(int)
        self.owners: dict[int, set[Member]] = defaultdict(set)


class Member:
    """One consumer, from its start to its end.

    Attributes:
        held: Its partitions, according to its callbacks.
        next: The next expected offset of each partition in ``held``, after the first record.
    """

    def __init__(
        self,
        simulation: Simulation,
        ledger: Ledger,
        faults: list[Fault],
        options: dict[str, Any],
        *,
        calm: bool | None = None,
    ) -> None:
        """With ``calm`` nothing is lost. It is the default without faults."""
        self.held: set[int] = set()
        self.next: dict[int, int] = {}
        self._simulation = simulation
        self._ledger = ledger
        self._calm = not faults if calm is None else calm
        self._slack = SLACK + stalled(faults)
        self._by_itself: bool = options["enable_auto_commit"]
        self._callback_seconds = simulation.random.choice((0, 0, 0.5))
        self._unfinished: list[Record] = []
        self._finished: dict[int, OffsetAndMetadata] = {}
        # Resets whose position the delivered records haven't reached.
        self._resets: dict[int, deque[OffsetReset]] = defaultdict(deque)
        self._announced: set[int] = set()
        self._stopped = False
        self.consumer = Consumer(**options, on_offset_reset=self._on_reset)
        self.consumer.subscribe("t", on_assigned=self._on_assigned, on_revoked=self._on_revoked, on_lost=self._on_lost)

    async def live(self, until: float, seconds_a_record: float = 0.0) -> None:
        """Read, process and commit until that virtual time; then close."""
        random = self._simulation.random
        await self.consumer.start()
        try:
            while self._simulation.time() < until and not self._stopped:
                await self._read(random.choice(("poll", "poll", "anext", "batch")), random.choice((0.1, 1.0)))
                await asyncio.sleep(seconds_a_record * len(self._unfinished))
                if not self._by_itself:
                    self._finish()
                    await self._commit()
        finally:
            self._finish()
            closing = self._simulation.time()
            await self._in_time(self.consumer.close(8000), 8.0, "close")
            # A callback that still runs then, for example after a stall, is cut off.
            in_time = self._simulation.time() - closing < 8.0
            assert not (self.held and in_time), f"closed, and {self.held} were never revoked"

    async def _read(self, way: str, timeout: float) -> None:
        self._finish()
        if way == "poll":
            least, count = self._simulation.random.choice(((1, 1), (1, 5), (1, 500), (5, 20)))
            poll = self.consumer.poll(timeout * 1000, count, min_records=least)
            try:
                for record in await self._in_time(poll, timeout, way):
                    self._receive(record)
            except RecordDeserializationError as error:
                self._receive(error.record)
            return
        try:
            if way == "anext":
                for _ in range(5):
                    self._finish()
                    self._receive(await self._in_time(asyncio.wait_for(anext(self.consumer), timeout), timeout, way))
            else:
                batches = self.consumer.batches()
                for record in await self._in_time(asyncio.wait_for(anext(batches), timeout), timeout, way):
                    self._receive(record)
        except asyncio.TimeoutError:
            pass
        except RecordDeserializationError as error:
            self._receive(error.record)

    def stop(self) -> None:
        """Close soon."""
        self._stopped = True

    async def _commit(self, offsets: Offsets | None = None) -> None:
        try:
            # Other members may already have some of these partitions. Without a fault, that means a rebalance was under
            # way.
            result = await self._in_time(self.consumer.commit(offsets, timeout_ms=2000), 2.0, "commit")
            assert not result.refused
        except DeadlineError:
            assert not self._calm, "without a fault, commits are answered"

    async def _in_time(self, call: Awaitable[T], seconds: float, name: str) -> T:
        # Two callbacks can run meanwhile: the time that they take is the application's own.
        return await in_time(call, name, seconds, self._slack + 2 * self._callback_seconds)

    def _receive(self, record: Record) -> None:
        assert record.partition in self._announced, f"{record} was handed out, and is not assigned"
        self._apply_resets(record.partition)
        expected = self.next.get(record.partition, record.offset)
        assert record.offset == expected, f"partition {record.partition}: {record.offset} came, not {expected}"
        self.next[record.partition] = record.offset + 1
        self._ledger.deliveries[record.partition, record.offset] += 1
        self._unfinished.append(record)

    def _finish(self) -> None:
        for record in self._unfinished:
            self._ledger.processed[record.partition].add(record.offset)
            self._ledger.values.add(record.value)
            # The epoch is needed, because nothing else tells whether the offset still belongs to the same log.
            self._finished[record.partition] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
        self._unfinished = []

    def _on_reset(self, event: OffsetReset) -> None:
        assert not self._calm, "without a fault, no log is cut"
        self._resets[event.partition.partition].append(event)

    def _apply_resets(self, partition: int) -> None:
        resets = self._resets[partition]
        while resets and resets[0].position == self.next.get(partition, resets[0].position):
            self.next[partition] = resets.popleft().offset

    async def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            number = partition.partition
            others = self._ledger.owners[number]
            assert not others or not self._calm, f"partition {number} is read by two members"
            assert number not in self.held, f"partition {number} was assigned twice"
            self.held.add(number)
            others.add(self)
        await asyncio.sleep(self._callback_seconds)
        self._announced.update(partition.partition for partition in partitions)

    async def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(self._callback_seconds)
        finished: Offsets = {
            where: self._finished[where.partition] for where in partitions if where.partition in self._finished
        }
        if not self._by_itself and finished:
            await self._commit(finished)
        self._give_up(partitions)

    async def _on_lost(self, partitions: list[TopicPartition]) -> None:
        assert not self._calm, "without a fault, nothing is lost"
        await asyncio.sleep(self._callback_seconds)
        self._give_up(partitions)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            number = partition.partition
            assert number in self.held, f"partition {number} was revoked or lost, and was not assigned"
            self.held.remove(number)
            self._announced.discard(number)
            self.next.pop(number, None)
            self._resets.pop(number, None)
            self._finished.pop(number, None)
            self._ledger.owners[number].discard(self)
