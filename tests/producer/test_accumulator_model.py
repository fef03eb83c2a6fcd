"""The accumulator against a model of the broker's side of idempotence, under any order of failures.

The model is what Kafka does (KIP-98): a partition takes a batch if its number follows the last one, answers a repeated
one with the offset it has, and refuses any other. Requests arrive in the order they were sent; answers may get lost.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BufferFullError, KafkaError, error_for
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.limits import BufferLimits
from aiokproto.records import BatchRecord, RecordBatch, encode
from aiokproto.types import RecordMetadata
from tests.producer.fake import PartitionLog
from tests.producer.sticky import FreeSinks, lowest

PARTITIONS = 2
LIMITS = BufferLimits(
    batch_size=300, buffer_memory=4000, max_request_size=1000, linger=1.0, delivery_timeout=15.0, in_flight=5
)
PRODUCER = (7, 0)
TRANSIENT = error_for(ErrorCode.NOT_ENOUGH_REPLICAS, "Produce")
FATAL = error_for(ErrorCode.INVALID_RECORD, "Produce")
REFUSED = error_for(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "Produce")


class ProducerMachine(RuleBasedStateMachine):
    """Every rule is an event that may happen to a producer."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.acc = Accumulator(LIMITS, sticky=lowest())
        self.topic = self.acc.update("flights", [1, 2], 0.0)
        self.logs = [PartitionLog() for _ in range(PARTITIONS)]
        self.posted: list[list[tuple[bytes, ProducerBatch, int]]] = [[] for _ in range(PARTITIONS)]
        self.wire: list[list[tuple[ProducerBatch, bytes]]] = []
        self.full = 0

    @rule(partition=st.integers(0, PARTITIONS - 1), size=st.integers(0, 120), many=st.integers(1, 6))
    def post(self, partition: int, size: int, many: int) -> None:
        for _ in range(many):
            value = b"%d." % len(self.posted[partition]) + b"x" * size
            batch = self.topic.queues[partition].open
            index = batch.append(1, None, value) if batch is not None else None
            placed = (batch, index) if batch is not None and index is not None else None
            placed = placed or self.acc.append(self.topic, partition, 1, None, value, (), self.now)
            if placed is None:
                self.full += 1
            else:
                self.posted[partition].append((value, *placed))

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 4))
    def post_stored(self, partition: int, count: int) -> None:
        """Add a batch that is sent unchanged."""
        values = [b"%d." % (len(self.posted[partition]) + place) for place in range(count)]
        stored = RecordBatch(encode([BatchRecord(0, 1, None, value) for value in values]))
        added = self.acc.append_encoded(self.topic.queues[partition], stored, self.now)
        if added is None:
            self.full += 1
        else:
            self.posted[partition] += [(value, added, place) for place, value in enumerate(values)]

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.acc.expire(self.now)

    @rule(busy=st.sampled_from([(), (1,), (2,)]))
    def send(self, busy: tuple[int, ...]) -> None:
        drained = self.acc.drain(self.now, FreeSinks(busy))
        for batches in drained.requests.values():
            for batch in batches:
                self.acc.queue(batch).assign(batch, PRODUCER)
            self.wire.append([(batch, bytes(batch.seal())) for batch in batches])

    @rule(leader=st.sampled_from([None, 1, 2]))
    def move_leader(self, leader: int | None) -> None:
        self.acc.update("flights", [leader, 2], 0.0)

    @precondition(lambda self: self.wire)
    @rule(fate=st.sampled_from(["answer", "answer", "answer lost", "request lost", "refuse", "too large", "fatal"]))
    def arrive(self, fate: str) -> None:
        for batch, data in self.wire.pop(0):
            self.settle(batch, data, fate)

    def settle(self, batch: ProducerBatch, data: bytes, fate: str) -> None:
        later = self.now + 0.5
        if batch.done:
            # Expired in the client, but the request that was written to the socket still arrives.
            if fate.startswith("answer"):
                self.logs[batch.where.partition].append(data)
        elif fate == "request lost" or fate == "refuse":
            self.acc.retry(batch, TRANSIENT, later)
        elif fate == "too large" and batch.count > 1 and batch.last_error is None:
            # Not after an attempt that may have been stored: a topic's limit does not change between two attempts.
            self.acc.split(batch)
        elif fate == "fatal" or fate == "too large":
            self.acc.fail(batch, FATAL)
        else:
            offset = self.logs[batch.where.partition].append(data)
            if fate == "answer lost":
                self.acc.retry(batch, TRANSIENT, later)
            elif isinstance(offset, ErrorCode):
                self.acc.restart(batch, REFUSED, later)
            else:
                self.acc.complete(batch, offset)

    @invariant()
    def the_budget_is_kept(self) -> None:
        if hasattr(self, "acc"):
            assert 0 <= self.acc.used <= LIMITS.buffer_memory
            assert self.acc.used == sum(batch.reserved for batch in self.acc.incomplete)
            assert sum(batch.wire_size for batch in self.acc.incomplete) <= self.acc.used + 61 * len(
                list(self.acc.incomplete)
            )

    def teardown(self) -> None:
        if not hasattr(self, "acc"):
            return
        self.acc.update("flights", [1, 2], 0.0)
        rounds = 0
        while self.wire or any(True for _ in self.acc.incomplete):
            while self.wire:
                self.arrive("answer")
            self.acc.end_linger()
            self.now += 0.5
            self.send(())
            rounds += 1
            assert rounds < 10_000, "a healthy broker gets everything"
        for partition in range(PARTITIONS):
            self.check(partition)

    def check(self, partition: int) -> None:
        """Acknowledged records are in the log at the reported offset, exactly once and in order."""
        log = self.logs[partition].values
        assert max(Counter(log).values(), default=1) == 1
        for value, batch, index in self.posted[partition]:
            outcome = batch.outcome.record_result(index, 1)
            if isinstance(outcome, RecordMetadata):
                assert log[outcome.offset] == value
            else:
                assert isinstance(outcome, KafkaError)
                assert not isinstance(outcome, BufferFullError)
        numbers = [int(value.partition(b".")[0]) for value in log if value]
        assert numbers == sorted(numbers)


TestProducerMachine = pytest.mark.slow(ProducerMachine.TestCase)
TestProducerMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
