"""What became of a batch's records, and who wants to know."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from aiokproto.accelerator import twin
from aiokproto.errors import KafkaError
from aiokproto.types import RecordMetadata, TopicPartition

log = logging.getLogger("aiokproto.producer")


class DeliveryContext:
    """What all outcomes of a producer share.

    Attributes:
        loop: The event loop in which outcomes become known; None where they are not waited for.
        unobserved_failures: Records that failed without anybody asking for their outcome.
    """

    def __init__(self) -> None:
        self.loop: object = None
        self.unobserved_failures = 0


@twin("posting")
class ProduceResult:
    """Where a batch is, once it is in the log.

    Attributes:
        topic: The topic it went to.
        partition: The partition.
        done: Whether the outcome of its records is known.
        written: Whether they are all in the log, one offset after the other: then what follows says where.
        base_offset: Offset of the first record; -1 when not known.
        append_time: The broker's timestamp for all of them (ms), or -1.
        observed: Whether anybody has asked.
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
    """The outcome of a batch's records. Deliveries hold it, not the batch, whose bytes go when it is done.

    Attributes:
        count: How many records, once done.
        error: Why not all are in the log, once done.
        context: What it shares with the producer's other outcomes.
    """

    __slots__ = ("_parent", "_parts", "_record_errors", "_waiting", "context", "count", "error")

    def __init__(self, where: TopicPartition, context: DeliveryContext) -> None:
        super().__init__(*where)
        self.count = 0
        self.error: KafkaError | None = None
        self.context = context
        # A dictionary for its order, and since thousands may be forgotten at once.
        self._waiting: dict[Callable[[], object], None] = {}
        self._record_errors: dict[int, KafkaError] = {}
        self._parts: Sequence[Outcome] = ()
        self._parent: Outcome | None = None

    def __str__(self) -> str:
        what = f"{self.count} records" if self.done else "a batch"
        return f"{what} for {TopicPartition(self.topic, self.partition)}"

    def complete(self, count: int, base_offset: int, append_time: int) -> None:
        """All ``count`` records are in the log. Tells who waits."""
        self.count = count
        self.base_offset = base_offset
        self.append_time = append_time
        self.written = True
        self._close()

    def fail(self, count: int, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        """None of them is, or none that is known of. Tells who waits.

        Args:
            count: How many there are.
            error: Why.
            record_errors: More precisely for single records, by place in the batch (KIP-467).
        """
        self.count = count
        self.error = error
        self._record_errors = record_errors or {}
        self._close()

    def split_into(self, parts: Sequence[tuple[Outcome, int]]) -> None:
        """From now on ``parts``, with the number of their records, together stand for this one."""
        self._parts = [part for part, _ in parts]
        for part, count in parts:
            part.count = count
            part._parent = self

    def _close(self) -> None:
        self.done = True
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()
        parent, self._parent = self._parent, None
        if parent is not None:
            # Whoever holds a record of a part asks the parent.
            self.observed = True
            parent.error = parent.error or self.error
            if all(part.done for part in parent._parts):
                parent.count = sum(part.count for part in parent._parts)
                parent._close()

    @property
    def failed(self) -> int:
        """How many of its records have failed."""
        if self._parts:
            return sum(part.failed for part in self._parts)
        return 0 if self.error is None else self.count

    def add_done_callback(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` once the outcome is known."""
        self._waiting[wake] = None

    def remove_done_callback(self, wake: Callable[[], object]) -> None:
        """Undo :meth:`add_done_callback`."""
        self._waiting.pop(wake, None)

    def record_result(self, index: int, timestamp: int) -> RecordMetadata | KafkaError:
        """What became of the record at ``index``, which was given ``timestamp``. It must be done."""
        self.observed = True
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
        """Where the first record is, which was given ``timestamp``; why not all are in the log, if so. It must be
        done."""
        self.observed = True
        return self.record_result(0, timestamp) if self.error is None else self.error

    def __del__(self) -> None:
        # Nobody can ask any more. An error that passes silently here is data that is lost silently.
        if getattr(self, "error", None) is not None and not self.observed:
            failed, where = self.failed, TopicPartition(self.topic, self.partition)
            self.context.unobserved_failures += failed
            log.error("%d records for %s were not delivered, and nobody asked: %s", failed, where, self.error)
