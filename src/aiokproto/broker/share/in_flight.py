"""Offsets in flight: those of a share partition that were delivered once and are not done with."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

FOREVER = float("inf")


class RecordState(IntEnum):
    """What became of a record, as Kafka numbers it."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether it stays so."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class InFlightRun(NamedTuple):
    """Offsets in a row, of one batch in flight, with one fate.

    Attributes:
        first: The first of them.
        last: The last of them.
        state: What became of them.
        deliveries: How often they were delivered.
        batch: Which batch in flight they are of: the offset that it began with when it was acquired.
        member: Who has acquired them.
        deadline: Until when he has them, on the broker's clock (s).
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    batch: int
    member: str = ""
    deadline: float = FOREVER

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1

    def within(self, first: int, last: int) -> InFlightRun:
        """The part of it from one offset to another; it has offsets there."""
        return self._replace(first=max(self.first, first), last=min(self.last, last))

    def unlocked(self, state: RecordState) -> InFlightRun:
        """The same offsets, which nobody has any more."""
        return self._replace(state=state, member="", deadline=FOREVER)


InFlightRuns = Sequence[InFlightRun]
"""In the order of their offsets. Where there is a gap between them the log has no records."""


def overlapping(runs: InFlightRuns, first: int, last: int) -> Iterator[InFlightRun]:
    """The parts of runs that lie from one offset to another."""
    at = bisect_left(runs, first, key=lambda run: run.last)
    while at < len(runs) and runs[at].first <= last:
        yield runs[at].within(first, last)
        at += 1


def replaced(runs: InFlightRuns, changed: Iterable[InFlightRun]) -> list[InFlightRun]:
    """Runs of which some, or parts of some, have changed.

    Args:
        runs: What there was.
        changed: What is in its place, in order; each lies within one of the runs.
    """
    result: list[InFlightRun] = []
    todo = deque(changed)
    for run in runs:
        rest: InFlightRun | None = run
        while rest is not None and todo and todo[0].first <= rest.last:
            new = todo.popleft()
            if rest.first < new.first:
                _add(result, rest._replace(last=new.first - 1))
            _add(result, new)
            rest = rest._replace(first=new.last + 1) if new.last < rest.last else None
        if rest is not None:
            _add(result, rest)
    return result


def _add(runs: list[InFlightRun], run: InFlightRun) -> None:
    """Append a run, to the last one where they are alike."""
    if runs and runs[-1].last + 1 == run.first and runs[-1][2:] == run[2:]:
        run = run._replace(first=runs.pop().first)
    runs.append(run)


def count_terminal(runs: InFlightRuns) -> int:
    """How many of their offsets are done with."""
    return sum(run.size for run in runs if run.state.is_terminal)
