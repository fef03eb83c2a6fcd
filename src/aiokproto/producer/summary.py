"""Error texts about records that were not delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from aiokproto.errors import ClientClosedError, DeadlineError, KafkaError, RecordAbortedError
from aiokproto.producer.batch import ProducerBatch
from aiokproto.texts import counted
from aiokproto.types import TopicPartition


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
    # It's late if close() or the timeout ended at least one batch; otherwise brokers refused all.
    error = (DeadlineError if late else KafkaError)(f"the producer was closed with {summary(lost)} not delivered")
    error.__cause__ = lost[0].last_error or lost[0].outcome.error
    return error


def summary(batches: Iterable[ProducerBatch]) -> str:
    """Return the number of records per partition, with the last error of each."""
    counts: Counter[TopicPartition] = Counter()
    reasons: dict[TopicPartition, str] = {}
    for batch in batches:
        counts[batch.where] += batch.outcome.failed if batch.done else batch.count
        why = batch.last_error or batch.outcome.error
        if why is not None:
            reasons[batch.where] = f" ({counted(batch.attempts, 'attempt')}, last: {why})"
    shown = [f"{where}: {count}{reasons.get(where, '')}" for where, count in counts.most_common(10)]
    more = f" and {counted(len(counts) - 10, 'more partition')}" if len(counts) > 10 else ""
    return f"{counted(sum(counts.values()), 'record')} ({'; '.join(shown)}{more})"
