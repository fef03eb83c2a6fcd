"""The transaction coordinator under random interleavings, crashes at any write, and nodes that come and go.

Whatever happens, a transaction is committed or aborted as a whole, promises are kept, and no transaction hangs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.metadata.cluster_state import ClusterState, Node
from aiokproto.broker.metadata.topics import NO_LEADER, Partition
from aiokproto.broker.transactions.coordinator import TransactionCoordinator
from aiokproto.broker.transactions.transaction_metadata import EPOCH_BUMP, ProducerIdAndEpoch
from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder, decode
from aiokproto.records.isolation import visible
from tests.broker.coordinators import read_stored

PARTITIONS = 2
TIMEOUT = 10.0
TRY_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class Crash(Exception):
    """The process crashes here."""


class Timer:
    def __init__(self, when: float, act: Callable[[], object]) -> None:
        self.when = when
        self.act = act
        self.off = False

    def cancel(self) -> None:
        self.off = True


class Clock:
    """A clock whose time passes only in :meth:`run`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def wall(self) -> int:
        return 1_700_000_000_000 + round(self.now * 1000)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Timer:
        timer = Timer(when, lambda: callback(*arguments))
        self.timers.append(timer)
        return timer

    def run(self, seconds: float = 0.0) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.timers if not timer.off and timer.when <= end]:
            timer = min(due, key=lambda each: each.when)
            timer.cancel()
            self.now = max(self.now, timer.when)
            timer.act()
        self.now = end
        self.timers = [timer for timer in self.timers if not timer.off]


class NoGroups:
    """The model writes no offsets."""

    def transaction_ended(self, partition: Partition, producer_id: int, committed: bool) -> None:
        raise AssertionError("no offsets topic takes part")


@dataclass
class Attempt:
    """The records of one transaction, and whether its commit was acknowledged."""

    written: list[tuple[int, bytes]] = field(default_factory=list)
    in_doubt: list[tuple[int, bytes]] = field(default_factory=list)
    promised: bool | None = None


@dataclass
class Producer:
    """A producer as clients implement it, for a transactional id that others may use too."""

    transactional_id: str
    version: int
    who: ProducerIdAndEpoch | None = None
    sequences: dict[int, int] = field(default_factory=dict)
    attempt: Attempt = field(default_factory=Attempt)
    pending_end: bool | None = None


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.appends_left: int | None = None
        self.down = False
        self.values = 0
        self.attempts: list[Attempt] = []
        self.producers = [Producer(name, version) for name in "ab" for version in (0, EPOCH_BUMP)]
        self.state: ClusterState | None = None
        self.open()
        self.running.create_topic("t", PARTITIONS, 1)

    @property
    def running(self) -> ClusterState:
        assert self.state is not None
        return self.state

    @property
    def partitions(self) -> list[Partition]:
        return self.running.topics["t"].partitions

    def open(self) -> None:
        """Restart from the files, as after the process has ended."""
        if self.state is not None:
            self.state.close_handlers()
        nodes = {number: Node(number, "h", 1) for number in range(2)}
        self.clock.timers.clear()
        options = BrokerOptions(
            {"transaction.state.log.num.partitions": 2, "transactional.id.expiration.ms": 3_600_000}
        )
        self.state = state = ClusterState(self.root, nodes, options, self.clock)
        state.nodes_up([0, 1])
        self.down = False
        self.transactions = TransactionCoordinator(state, cast("Any", NoGroups()))
        state.runtime = cast("Any", self.transactions)
        self.appends_left = None
        read_stored(self.transactions)
        self.transactions.start()

    def attempting(self, act: Callable[[], object]) -> ErrorCode | None:
        """Do something, and return its error, or None if the process crashed during it and was started again."""
        real = Partition.append

        def append(partition: Partition, *arguments: Any) -> Any:
            if self.appends_left is not None:
                self.appends_left -= 1
                if self.appends_left < 0:
                    raise Crash
            return real(partition, *arguments)

        try:
            with patch.object(Partition, "append", append):
                act()
                self.clock.run()
        except Crash:
            self.open()
            return None
        except BrokerError as error:
            return error.code
        return ErrorCode.NONE

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            shutil.rmtree(self.root)

    def settle(self) -> None:
        self.appends_left = None
        if self.down:
            self.running.nodes_up([1])
        self.clock.run(TIMEOUT + 1)
        seen = [self.committed(partition) for partition in self.partitions]
        for partition in self.partitions:
            assert partition.log.last_stable_offset == partition.log.end_offset, "a transaction hangs"
        for attempt in self.attempts:
            found = {value in seen[index] for index, value in attempt.written}
            assert len(found) <= 1, "partly committed"
            if attempt.promised is not None and found:
                assert found == {attempt.promised}
            if found != {True}:
                assert not any(value in seen[index] for index, value in attempt.in_doubt if attempt.written)
        self.running.close()

    def committed(self, partition: Partition) -> list[bytes]:
        log = partition.log
        end, offset = log.last_stable_offset, log.start_offset
        aborted = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in log.aborted_transactions(offset, end)
        ]
        batches = []
        while offset < end:
            part = list(decode(log.find(offset, 1 << 20, until=end).read()))
            batches += part
            offset = part[-1].next_offset
        values = [record.value for batch in visible(batches, aborted) for record in batch]
        assert len(values) == len(set(values)), "a record twice"
        return [value or b"" for value in values]

    # ---- what happens

    @rule(number=st.integers(0, 3))
    def begin(self, number: int) -> None:
        producer = self.producers[number]
        known = producer.who

        def act() -> None:
            after = self.transactions.init_producer_id(producer.transactional_id, int(TIMEOUT * 1000), known)
            producer.who = after.identity

        error = self.attempting(act)
        if error is ErrorCode.PRODUCER_FENCED:
            producer.who = None
        if error is not None and not error:
            self.forget(producer)

    def forget(self, producer: Producer) -> None:
        self.attempts.append(producer.attempt)
        producer.attempt = Attempt()
        producer.sequences.clear()
        producer.pending_end = None

    @rule(number=st.integers(0, 3), index=st.integers(0, PARTITIONS - 1))
    def write(self, number: int, index: int) -> None:
        producer = self.producers[number]
        who = producer.who
        partition = self.partitions[index]
        if who is None or producer.pending_end is not None or partition.leader == NO_LEADER:
            return
        self.values += 1
        value = b"%d" % self.values
        sequence = producer.sequences.get(index, 0)
        builder = BatchBuilder(
            producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=sequence, is_transactional=True
        )
        builder.append(self.clock.wall(), None, value)
        batch = bytes(builder.close())

        def act() -> None:
            partition = self.partitions[index]
            if producer.version < EPOCH_BUMP:
                self.transactions.add_partitions(producer.transactional_id, who, [("t", index)])
            if not partition.log.producers.in_transaction(*who):
                adds = producer.version >= EPOCH_BUMP
                self.transactions.verify_or_add_partition(
                    producer.transactional_id, who, partition, adds=adds, abortable=True
                )
            partition.append(batch, self.clock.wall())

        error = self.attempting(act)
        # Clients send a batch again if they don't know its outcome.
        for _ in range(2):
            if error is None or error in TRY_AGAIN:
                error = self.attempting(act)
        if error is ErrorCode.NONE:
            producer.attempt.written.append((index, value))
            producer.sequences[index] = sequence + 1
        elif error not in TRY_AGAIN:
            producer.attempt.in_doubt.append((index, value))
            producer.who = None
            self.forget(producer)

    @rule(number=st.integers(0, 3), commit=st.booleans())
    def end(self, number: int, commit: bool) -> None:
        producer = self.producers[number]
        who = producer.who
        if who is None:
            return
        if producer.pending_end is not None:
            commit = producer.pending_end
        ended: list[ProducerIdAndEpoch] = []

        def act() -> None:
            ended.append(self.transactions.end(producer.transactional_id, who, commit, producer.version).identity)

        error = self.attempting(act)
        if error is None or error in TRY_AGAIN:
            producer.pending_end = commit
        elif error is ErrorCode.NONE:
            producer.attempt.promised = commit
            sequences = dict(producer.sequences)
            self.forget(producer)
            if producer.version >= EPOCH_BUMP:
                producer.who = ended[-1]
            else:
                producer.sequences = sequences
        elif producer.attempt.written or error is not ErrorCode.INVALID_TXN_STATE:
            # The producer was fenced, or timed out, so it has to start again.
            producer.who = None
            self.forget(producer)

    @rule(appends=st.integers(0, 4))
    def crash_soon(self, appends: int) -> None:
        self.appends_left = appends

    @rule()
    def crash(self) -> None:
        self.open()

    @rule(seconds=st.sampled_from([0.1, TIMEOUT / 2, TIMEOUT]))
    def time_passes(self, seconds: float) -> None:
        self.attempting(lambda: self.clock.run(seconds))

    @precondition(lambda self: not self.down)
    @rule()
    def node_down(self) -> None:
        self.down = self.attempting(lambda: self.running.node_down(1)) is ErrorCode.NONE

    @precondition(lambda self: self.down)
    @rule()
    def node_up(self) -> None:
        self.attempting(lambda: self.running.nodes_up([1]))
        self.down = False

    @invariant()
    def nothing_is_forgotten(self) -> None:
        for partition in self.partitions:
            committed: Iterable[bytes] = self.committed(partition)
            assert all(committed)


Transactions.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTransactions = Transactions.TestCase
