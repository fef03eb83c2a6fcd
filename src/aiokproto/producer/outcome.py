"""The result of a batch, which the deliveries of all its records share.

A delivery is two numbers and a reference to the batch's outcome: a future for each of millions of records would be too
expensive. The outcome outlives the batch, whose bytes are freed when it's done. A failure that no task has retrieved is
logged and counted when the outcome is garbage-collected. Otherwise data would be lost silently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import KafkaError
from aiokproto.texts import counted
from aiokproto.types import RecordMetadata, TopicPartition

log = logging.getLogger("aiokproto.producer")


class DeliveryContext:
    """State that all outcomes of a producer share.

    Attributes:
        loop: The producer's event loop; None before it's started.
        unobserved_failures: Number of failed records whose outcome was never retrieved.
    """

    def __init__(self) -> None:
        self.loop: object = None
        self.unobserved_failures = 0


@has_compiled_form
class ProduceResult:
    """Where a batch was written (Java's ``ProduceRequestResult``). A separate class, because it has a compiled form.

    Attributes:
        topic: The topic.
        partition: The partition.
        done: Whether the outcome is known.
        written: Whether all records are in the log at consecutive offsets. If so, the fields below are valid.
        base_offset: Offset of the first record; -1 if unknown.
        append_time: The broker's timestamp for all records (ms) if the topic has LogAppendTime, or -1.
        observed: Whether a caller has retrieved the result or error of any record.
    """

    __slots__ = ("append_time", "base_offset", "done", "observed", "partition", "topic", "written")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.done = False
        self.written = False
        self.base_offset = -1
        self.append_time = -1
        self.observed = False


class Outcome(ProduceResult):
    """The outcome of a batch's records. Each outcome is completed or failed exactly once.

    Attributes:
        count: Number of records, once done.
        error: Why not all records are in the log, once done; None if they all are.
        context: State that it shares with the producer's other outcomes.
    """

    __slots__ = ("_parent", "_parts", "_record_errors", "_waiting", "context", "count", "error")

    def __init__(self, topic_partition: TopicPartition, context: DeliveryContext) -> None:
        super().__init__(*topic_partition)
        self.count = 0
        self.error: KafkaError | None = None
        self.context = context
        # This dict serves as an ordered set, so thousands of callbacks can be removed quickly.
        self._waiting: dict[Callable[[], object], None] = {}
        self._record_errors: dict[int, KafkaError] = {}
        self._parts: Sequence[Outcome] = ()
        self._parent: Outcome | None = None

    def __str__(self) -> str:
        what = counted(self.count, "record") if self.done else "a batch"
        return f"{what} for {TopicPartition(self.topic, self.partition)}"

    def complete(self, count: int, base_offset: int, append_time: int) -> None:
        """Complete: all ``count`` records are in the log. Runs the callbacks."""
        self.count = count
        self.base_offset = base_offset
        self.append_time = append_time
        self.written = True
        self._close()

    def fail(self, count: int, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        """Fail: the records are not in the log, or it is unknown whether they are. Runs the callbacks.

        Args:
            count: Number of records.
            error: Why.
            record_errors: Errors of individual records by their index in the batch (KIP-467).
        """
        self.count = count
        self.error = error
        self._record_errors = record_errors or {}
        self._close()

    def split_into(self, parts: Sequence[tuple[Outcome, int]]) -> None:
        """Replace this outcome with the outcomes of the batch's parts, given with their record counts."""
        self._parts = [part for part, _ in parts]
        for part, count in parts:
            part.count = count
            part._parent = self

    def _close(self) -> None:
        self.done = True
        # Take the callbacks out first: one may add another, or drop the last reference to this outcome.
        waiting, self._waiting = self._waiting, {}
        # They run in the order in which they were added, so tasks continue in the order in which they awaited.
        for wake in waiting:
            wake()
        parent, self._parent = self._parent, None
        if parent is not None:
            # Deliveries refer only to the parent, so only the parent reports unobserved failures.
            self.observed = True
            # The first failure stands for the batch; each record's own result comes from its part.
            parent.error = parent.error or self.error
            # The parent has no result before that: half of its records may still be in flight.
            if all(part.done for part in parent._parts):
                parent.count = sum(part.count for part in parent._parts)
                parent._close()

    @property
    def failed(self) -> int:
        """Number of records that failed."""
        if self._parts:
            return sum(part.failed for part in self._parts)
        return 0 if self.error is None else self.count

    def add_done_callback(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` when the outcome is known. The outcome must not be known yet."""
        self._waiting[wake] = None

    def remove_done_callback(self, wake: Callable[[], object]) -> None:
        """Remove a callback that was added by :meth:`add_done_callback`."""
        self._waiting.pop(wake, None)

    def record_result(self, index: int, timestamp: int) -> RecordMetadata | KafkaError:
        """Return the result of the record at ``index``, which had ``timestamp``. The outcome must be done."""
        self.observed = True
        # The index counts from the start of the original batch, even after a split.
        for part in self._parts:
            if index < part.count:
                return part.record_result(index, timestamp)
            index -= part.count
        if self.error is not None:
            return self._record_errors.get(index, self.error)
        return RecordMetadata(
            self.topic,
            self.partition,
            self.base_offset + index if self.base_offset >= 0 else -1,
            timestamp if self.append_time < 0 else self.append_time,
        )

    def batch_result(self, timestamp: int) -> RecordMetadata | KafkaError:
        """Return the first record's metadata, or the error unless all records were written. The outcome must be
        done."""
        self.observed = True
        return self.record_result(0, timestamp) if self.error is None else self.error

    # Only now is it certain that no task will retrieve the failure. asyncio does the same for futures.
    def __del__(self) -> None:
        # __init__ may not have run, hence getattr.
        if getattr(self, "error", None) is not None and not self.observed:
            failed, topic_partition = self.failed, TopicPartition(self.topic, self.partition)
            self.context.unobserved_failures += failed
            log.error(
                "failed to deliver %s for %s; no task awaited them: %s",
                counted(failed, "record"),
                topic_partition,
                self.error,
            )
