"""Sequence numbers of a partition: wrapping, and new numbers after a restart."""

from __future__ import annotations

from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.outcome import DeliveryContext
from aiokproto.producer.queue import MAX_EPOCH, PartitionQueue, SequenceRestart
from aiokproto.records import RecordBatch
from aiokproto.types import TopicPartition

WHERE = TopicPartition("flights", 0)


def queue_with(*counts: int) -> PartitionQueue:
    """Return a queue with one closed batch for each count."""
    queue = PartitionQueue(WHERE, 1)
    for count in counts:
        batch = ProducerBatch(WHERE, queue.number(), 0.0, DeliveryContext(), max_bytes=10_000)
        for _ in range(count):
            batch.append(1, None, b"v")
        queue.closed.append(batch)
    return queue


def header(batch: ProducerBatch) -> tuple[int, int, int]:
    wire = RecordBatch(batch.seal())
    wire.validate()
    return wire.producer_id, wire.producer_epoch, wire.base_sequence


def test_sequence_numbers_increase_and_wrap() -> None:
    queue = queue_with(3, 2, 1)
    one, two, three = (queue.take(0.0) for _ in range(3))
    queue.next_sequence = 0x7FFFFFFF - 2
    for batch in (one, two, three):
        queue.assign(batch, (7, 0))
    assert [batch.sequence for batch in (one, two, three)] == [0x7FFFFFFD, 0, 2]


def test_a_restart_gives_waiting_batches_new_numbers_under_the_next_epoch() -> None:
    queue = queue_with(3, 2)
    one, two = queue.take(0.0), queue.take(0.0)
    for batch in (one, two):
        queue.assign(batch, (7, 0))
        assert header(batch)[:2] == (7, 0)
    queue.in_flight.clear()
    queue.requeue(two)
    queue.requeue(one)
    queue.require_restart(SequenceRestart.NOW)
    for batch in (queue.take(0.0), queue.take(0.0)):
        queue.assign(batch, (7, 0))
    assert (header(one), header(two)) == ((7, 1, 0), (7, 1, 3)), "headers of closed batches are rewritten"


def test_the_stricter_restart_wins() -> None:
    queue = queue_with()
    queue.require_restart(SequenceRestart.NOW)
    queue.require_restart(SequenceRestart.AFTER_SEQUENCED)
    assert queue.restart is SequenceRestart.NOW


def test_after_the_last_epoch_a_new_producer_id_is_taken() -> None:
    queue = queue_with(1)
    batch = queue.take(0.0)
    queue.producer = (7, MAX_EPOCH)
    assert queue.epochs_exhausted
    queue.require_restart(SequenceRestart.NOW)
    queue.assign(batch, (8, 0))
    assert header(batch) == (8, 0, 0)
    assert not queue.epochs_exhausted
