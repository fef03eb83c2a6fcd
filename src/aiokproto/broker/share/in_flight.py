"""Records in flight: the offsets of a share partition that have been fetched and aren't all in a terminal state.

They are stored as runs of offsets in the same state, because a share partition can have many thousands of records in
flight, and they are usually acquired and acknowledged in whole batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

FOREVER = float("inf")


class RecordState(IntEnum):
    """The state of a record in flight, with Kafka's numbers."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether a record in this state is never delivered again."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class InFlightRun(NamedTuple):
    """Consecutive offsets of one in-flight batch that are in the same state.

    Attributes:
        first: The first offset.
        last: The last offset.
        state: Their state.
        delivery_count: How often they were delivered.
        batch: The first offset of the in-flight batch that they were acquired with. Throttling applies to whole
            batches.
        member_id: The member that has acquired them, or an empty string.
        deadline: When the acquisition lock expires, on the broker's clock (s).
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    batch: int
    member_id: str = ""
    deadline: float = FOREVER

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def within(self, first: int, last: int) -> InFlightRun:
        """Return the part of the run between two offsets, which must overlap it."""
        return self._replace(first=max(self.first, first), last=min(self.last, last))

    def unlocked(self, state: RecordState) -> InFlightRun:
        """Return the run in another state, without an acquisition lock."""
        return self._replace(state=state, member_id="", deadline=FOREVER)


InFlightRuns = Sequence[InFlightRun]
"""Runs in order of offset, without overlaps. The log doesn't contain records for a gap between runs."""


def overlapping(runs: InFlightRuns, first: int, last: int) -> Iterator[InFlightRun]:
    """Return the parts of runs between two offsets."""
    # Find the first run that doesn't end before ``first``. Runs don't overlap, so they are ordered by their last
    # offsets too.
    index = bisect_left(runs, first, key=lambda run: run.last)
    while index < len(runs) and runs[index].first <= last:
        yield runs[index].within(first, last)
        index += 1


def replace_runs(runs: InFlightRuns, changed: Iterable[InFlightRun]) -> list[InFlightRun]:
    """Replace runs, or parts of runs.

    Args:
        runs: The runs in flight.
        changed: The replacements in order of offset. Each must be within one of the runs.

    Returns:
        All runs. Adjacent runs that are otherwise equal are joined.
    """
    result: list[InFlightRun] = []
    todo = deque(changed)
    for run in runs:
        rest: InFlightRun | None = run
        while rest is not None and todo and todo[0].first <= rest.last:
            new = todo.popleft()
            if rest.first < new.first:
                _append(result, rest._replace(last=new.first - 1))
            _append(result, new)
            rest = rest._replace(first=new.last + 1) if new.last < rest.last else None
        if rest is not None:
            _append(result, rest)
    return result


def _append(runs: list[InFlightRun], run: InFlightRun) -> None:
    """Append a run, or join it with the last run if they are adjacent and otherwise equal."""
    # All other fields must be equal, including batch, member and deadline: a run has one lock.
    if runs and runs[-1].last + 1 == run.first and runs[-1][2:] == run[2:]:
        run = run._replace(first=runs.pop().first)
    runs.append(run)


def count_terminal(runs: InFlightRuns) -> int:
    """Return the number of offsets in a terminal state."""
    return sum(run.size for run in runs if run.state.is_terminal)
