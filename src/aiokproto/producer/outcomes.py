"""The results of many records, as returned by ``send_many()`` and by awaiting the delivery from ``post_many()``."""

from __future__ import annotations

import logging
import operator
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol, SupportsIndex, overload

from aiokproto.errors import KafkaError
from aiokproto.producer.delivery import BatchSlice
from aiokproto.producer.outcome import DeliveryContext, Outcome
from aiokproto.producer.waiting import wait_done
from aiokproto.texts import counted
from aiokproto.types import RecordMetadata

log = logging.getLogger("aiokproto.producer")


class IntArray(Protocol):
    """A sequence of integers, such as a numpy array."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> SupportsIndex: ...


class RejectedRecords:
    """Records that were not buffered because of the same error."""

    __slots__ = ("count", "error")

    def __init__(self, error: KafkaError, count: int = 1) -> None:
        self.error = error
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> KafkaError:
        return self.error


class ScatteredRecords:
    """Records of a table that went to batches of several partitions.

    Attributes:
        sources: The batches' outcomes, and the errors of records that were not buffered.
    """

    __slots__ = ("_index", "_timestamps", "_which", "sources")

    def __init__(
        self,
        sources: Sequence[Outcome | KafkaError],
        which: IntArray,
        index: IntArray,
        timestamps: IntArray,
    ) -> None:
        """Each array has an item per record: the index in ``sources``, the record's index there, and its timestamp."""
        self.sources = sources
        self._which = which
        self._index = index
        self._timestamps = timestamps

    def __len__(self) -> int:
        return len(self._which)

    def rejections(self) -> list[KafkaError]:
        """Return the error of each record that was not buffered."""
        if not any(isinstance(source, KafkaError) for source in self.sources):
            return []
        found = (self.sources[operator.index(self._which[index])] for index in range(len(self)))
        return [error for error in found if isinstance(error, KafkaError)]

    def __getitem__(self, index: int) -> RecordMetadata | KafkaError:
        found = self.sources[operator.index(self._which[index])]
        if isinstance(found, KafkaError):
            return found
        return found.record_result(operator.index(self._index[index]), operator.index(self._timestamps[index]))


Part = BatchSlice | ScatteredRecords | RejectedRecords
"""A range of consecutive records."""


def outcomes_of(part: Part) -> Iterable[Outcome]:
    """Return the batch outcomes that the records' results depend on."""
    if isinstance(part, BatchSlice):
        return (part.outcome,)
    return (
        (source for source in part.sources if isinstance(source, Outcome)) if isinstance(part, ScatteredRecords) else ()
    )


class Outcomes(Sequence["RecordMetadata | KafkaError"]):
    """The results of many records in order: each record's metadata, or why it was not written.

    This is a sequence that creates its items on access. To check that all records were written, use :attr:`errors`. If
    there are errors and it's dropped unchecked, they are logged.
    """

    __slots__ = ("_context", "_ends", "_observed", "_parts")

    def __init__(self, parts: Sequence[Part], context: DeliveryContext) -> None:
        """``parts`` are in order. Their outcomes must be known."""
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))
        self._context = context
        self._observed = False

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> RecordMetadata | KafkaError: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordMetadata | KafkaError]: ...
    def __getitem__(self, index: int | slice) -> RecordMetadata | KafkaError | list[RecordMetadata | KafkaError]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} outcomes")
        self._observed = True
        # The ends are cumulative, so the record is in the first part whose end is greater.
        part = bisect_right(self._ends, index)
        return self._parts[part][index - (self._ends[part - 1] if part else 0)]

    def __iter__(self) -> Iterator[RecordMetadata | KafkaError]:
        self._observed = True
        for part in self._parts:
            yield from part.results() if isinstance(part, BatchSlice) else (part[index] for index in range(len(part)))

    @property
    def errors(self) -> dict[int, KafkaError]:
        """The errors of records that were not written, by index; empty if all were."""
        self._observed = True
        found: dict[int, KafkaError] = {}
        for part, end in zip(self._parts, self._ends, strict=True):
            start = end - len(part)
            # Usually all records of a part were written, and one flag says so. Only other parts are searched.
            if not _all_written(part):
                results = ((index, part[index]) for index in range(len(part)))
                found.update((start + index, result) for index, result in results if isinstance(result, KafkaError))
        return found

    def __repr__(self) -> str:
        return f"<Outcomes of {counted(len(self), 'record')}, {len(self.errors)} of them not written>"

    # Records that were never buffered have no batch that reports their failure, so report it here.
    def __del__(self) -> None:
        # True means that __init__ failed, and there's nothing to report.
        if getattr(self, "_observed", True):
            return
        rejected = [error for part in self._parts for error in _rejections(part)]
        if rejected:
            self._context.unobserved_failures += len(rejected)
            log.error(
                "send_many(): %s not buffered, and the outcomes were never checked; the first error: %s",
                counted(len(rejected), "record"),
                rejected[0],
            )


class BulkDelivery:
    """Many buffered records: ``await`` it for their :class:`Outcomes`.

    It can be awaited more than once, by several tasks, or never. Failures that are never checked are logged. Cancelling
    an await doesn't affect the records.
    """

    __slots__ = ("_outcomes", "_parts")

    def __init__(self, parts: Sequence[Part], context: DeliveryContext) -> None:
        """``parts`` are in order. Their outcomes may still be unknown."""
        self._parts = parts
        self._outcomes = Outcomes(parts, context)

    def __await__(self) -> Generator[Any, None, Outcomes]:
        # Await one at a time: outcomes arrive in about this order. A failure is a result here, so it isn't raised.
        for part in self._parts:
            for outcome in outcomes_of(part):
                yield from wait_done(outcome).__await__()
        return self._outcomes

    def __len__(self) -> int:
        return len(self._outcomes)

    def done(self) -> bool:
        """Whether the outcome of every record is known."""
        return all(outcome.done for part in self._parts for outcome in outcomes_of(part))

    def rejections(self) -> list[KafkaError]:
        """Return the error of each record that was not buffered, in order."""
        return [error for part in self._parts for error in _rejections(part)]

    def __repr__(self) -> str:
        return f"<BulkDelivery {'done' if self.done() else 'pending'}: {counted(len(self), 'record')}>"


def _rejections(part: Part) -> list[KafkaError]:
    """Return the error of each record that was not buffered."""
    if isinstance(part, RejectedRecords):
        return [part.error] * part.count
    return part.rejections() if isinstance(part, ScatteredRecords) else []


def _all_written(part: Part) -> bool:
    if isinstance(part, RejectedRecords) or (
        isinstance(part, ScatteredRecords) and len(part.sources) > sum(1 for _ in outcomes_of(part))
    ):
        return False
    written = not isinstance(part, ScatteredRecords) or all(isinstance(source, Outcome) for source in part.sources)
    for outcome in outcomes_of(part):
        # The caller sees the result now, so a failure counts as observed.
        outcome.observed = True
        written = written and outcome.written
    return written
