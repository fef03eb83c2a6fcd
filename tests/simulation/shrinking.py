"""Minimizes a schedule that violates a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.faults import Fault


def shrunk(schedule: Sequence[Fault], fails: Callable[[list[Fault]], bool]) -> list[Fault]:
    """Return a part of a schedule that still fails, and that would pass without any of its faults."""
    left = list(schedule)
    place = 0
    while place < len(left):
        without = left[:place] + left[place + 1 :]
        if fails(without):
            left = without
        else:
            place += 1
    return left
