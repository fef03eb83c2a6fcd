"""What :meth:`Producer.send_many` returns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload

from aiokproto.errors import KafkaError
from aiokproto.producer.delivery import Run
from aiokproto.types import RecordMetadata


class Outcomes(Sequence["RecordMetadata | KafkaError"]):
    """What became of many records, in their order: of each where it is, or why it is not written.

    A sequence whose items are made when they are looked at. To see whether all went well, look at :attr:`errors`.
    """

    __slots__ = ("_ends", "_parts")

    def __init__(self, parts: Sequence[Run | Sequence[KafkaError]]) -> None:
        """``parts`` are in order; their outcomes must be known."""
        self._parts = parts
        self._ends = list(accumulate(part.count if isinstance(part, Run) else len(part) for part in parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> RecordMetadata | KafkaError: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordMetadata | KafkaError]: ...
    def __getitem__(self, index: int | slice) -> RecordMetadata | KafkaError | list[RecordMetadata | KafkaError]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} outcomes")
        part = bisect_right(self._ends, index)
        return self._parts[part][index - (self._ends[part - 1] if part else 0)]

    def __iter__(self) -> Iterator[RecordMetadata | KafkaError]:
        for part in self._parts:
            yield from part.results() if isinstance(part, Run) else part

    @property
    def errors(self) -> dict[int, KafkaError]:
        """The errors of the records that are not written, by their place; empty if all are."""
        found: dict[int, KafkaError] = {}
        for part, end in zip(self._parts, self._ends, strict=True):
            if isinstance(part, Run):
                # Asked about, and so no longer unobserved.
                part.outcome.observed = True
                if part.outcome.written:
                    continue
            results = part.results() if isinstance(part, Run) else part
            start = end - len(results)
            found.update((start + place, one) for place, one in enumerate(results) if isinstance(one, KafkaError))
        return found

    def __repr__(self) -> str:
        return f"<Outcomes of {len(self)} records, {len(self.errors)} of them not written>"
