"""A producer's statistics and health, collected from its components, and errors about undelivered records. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from aiokproto.errors import ClientClosedError, DeadlineError, KafkaError, RecordAbortedError
from aiokproto.observe.health import Findings
from aiokproto.observe.stats import ClientStats, Durations
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.limits import BufferLimits
from aiokproto.texts import counted
from aiokproto.types import TopicPartition

_NAMED = 3
"""Maximum number of partitions that a finding mentions."""


@dataclass(frozen=True)
class ProducerStats:
    """What a producer has done, and what it's holding.

    Attributes:
        client: Connections, requests and metadata.
        buffered_records: Records without an outcome: waiting, or in flight.
        buffered_batches: Batches of these records.
        buffered_bytes: Bytes of ``buffer_memory`` that they occupy.
        buffer_memory: The option ``buffer_memory``.
        oldest_age: How long ago the oldest of these batches was opened (s).
        in_flight_batches: Batches that have been or are being sent, and have no outcome.
        batches_written: Acknowledged batches.
        records_written: Records in these batches.
        bytes_written: Size of these batches as sent.
        batches_failed: Batches that were given up.
        records_failed: Records in these batches.
        retries: Batches that were sent again.
        queue_time: Time from a batch's first record to its first request.
        latency: Time from a batch's first record to its acknowledgement.
        transactions_committed: Transactions that were committed.
        transactions_aborted: Transactions that were aborted.
    """

    client: ClientStats
    buffered_records: int
    buffered_batches: int
    buffered_bytes: int
    buffer_memory: int
    oldest_age: float
    in_flight_batches: int
    batches_written: int
    records_written: int
    bytes_written: int
    batches_failed: int
    records_failed: int
    retries: int
    queue_time: Durations
    latency: Durations
    transactions_committed: int
    transactions_aborted: int


def producer_stats(client: ClientStats, accumulator: Accumulator, limits: BufferLimits, now: float) -> ProducerStats:
    """Return the statistics at ``now`` (s, the loop's clock)."""
    batches = list(accumulator.incomplete)
    seen = accumulator.observer
    return ProducerStats(
        client=client,
        buffered_records=sum(batch.count for batch in batches),
        buffered_batches=len(batches),
        buffered_bytes=accumulator.used,
        buffer_memory=limits.buffer_memory,
        oldest_age=now - batches[0].created if batches else 0.0,
        in_flight_batches=sum(_is_in_flight(accumulator, batch) for batch in batches),
        batches_written=seen.batches,
        records_written=seen.records,
        bytes_written=seen.bytes,
        batches_failed=seen.failed_batches,
        records_failed=seen.failed_records,
        retries=seen.retries,
        queue_time=Durations.of(seen.queue_time),
        latency=Durations.of(seen.latency),
        transactions_committed=seen.committed,
        transactions_aborted=seen.aborted,
    )


def _is_in_flight(accumulator: Accumulator, batch: ProducerBatch) -> bool:
    return batch in accumulator.queue(batch).in_flight


def add_findings(
    findings: Findings, accumulator: Accumulator, limits: BufferLimits, now: float, *, short_of_memory: bool
) -> None:
    """Add what's wrong with the delivery of records."""
    batches = list(accumulator.incomplete)
    leaderless = Counter(str(batch.topic_partition) for batch in batches if accumulator.queue(batch).leader is None)
    for partition, count in leaderless.most_common(_NAMED):
        findings.degraded.append(
            f"partition {partition} has no leader ({counted(count, 'batch', 'batches')} wait for it)"
        )
    if len(leaderless) > _NAMED:
        findings.degraded.append(f"{counted(len(leaderless) - _NAMED, 'more partition')} with records without a leader")
    if short_of_memory:
        findings.degraded.append(f"calls wait for free memory: buffer_memory={limits.buffer_memory} is used up")
    # Half of the records' time has passed, and the problem may well last for the other half.
    if batches and now - batches[0].created > limits.delivery_timeout / 2:
        oldest = batches[0]
        reason = f": {oldest.last_error}" if oldest.last_error is not None else ""
        age = now - oldest.created
        findings.degraded.append(f"{oldest} not acknowledged for {age:.0f} s{reason}")


def undelivered(batch: ProducerBatch) -> KafkaError:
    """Return the error of a batch that was not delivered before the producer was closed."""
    reason = f", last: {batch.last_error}" if batch.last_error else ""
    error = ClientClosedError(
        f"{batch} not delivered before the producer was closed; {counted(batch.attempts, 'attempt')}{reason}"
    )
    error.__cause__ = batch.last_error
    return error


def aborted(batch: ProducerBatch) -> KafkaError:
    """Return the error of a batch that the application has dropped."""
    if not batch.attempts:
        return RecordAbortedError(f"{batch} dropped by abort() before the batch was sent")
    attempts = counted(batch.attempts, "attempt")
    return RecordAbortedError(f"{batch} dropped by abort() after {attempts}: it may be in the log")


def delivery_error(lost: list[ProducerBatch]) -> KafkaError:
    """Return the error of ``close()`` for batches that were not delivered, and mark them as observed."""
    late = False
    for batch in lost:
        batch.outcome.observed = True
        late = late or isinstance(batch.outcome.error, ClientClosedError | DeadlineError)
    # It's a DeadlineError if close() or the timeout ended at least one batch. Otherwise brokers refused all of them.
    error = (DeadlineError if late else KafkaError)(f"the producer was closed with {summary(lost)} not delivered")
    error.__cause__ = lost[0].last_error or lost[0].outcome.error
    return error


def summary(batches: Iterable[ProducerBatch]) -> str:
    """Return the number of records per partition, with each partition's last error."""
    counts: Counter[TopicPartition] = Counter()
    reasons: dict[TopicPartition, str] = {}
    for batch in batches:
        counts[batch.topic_partition] += batch.outcome.failed if batch.done else batch.count
        why = batch.last_error or batch.outcome.error
        if why is not None:
            reasons[batch.topic_partition] = f" ({counted(batch.attempts, 'attempt')}, last: {why})"
    shown = [
        f"{topic_partition}: {count}{reasons.get(topic_partition, '')}"
        for topic_partition, count in counts.most_common(10)
    ]
    more = f" and {counted(len(counts) - 10, 'more partition')}" if len(counts) > 10 else ""
    return f"{counted(sum(counts.values()), 'record')} ({'; '.join(shown)}{more})"
