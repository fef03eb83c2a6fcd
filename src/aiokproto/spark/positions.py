"""Positions in partitions, with the leader epochs that reveal truncation. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs that have records, each with its first offset."""


@dataclass(frozen=True)
class Divergence:
    """Offsets where a log no longer has the records that were read, for example after an unclean leader election.

    Attributes:
        offset: The first offset whose record isn't the one that was read.
        end: The end of the records that were read. Kafka lost the records between ``offset`` and ``end``.
        epoch: The leader epoch of the last record that was read.
        found_epoch: The leader epoch that the log has at ``offset``; -1 if the leader didn't report it.
    """

    offset: int
    end: int
    epoch: int
    found_epoch: int


@dataclass(frozen=True)
class Position:
    """How far the records of a partition were read.

    Attributes:
        offset: The offset after the last record.
        epochs: The last leader epochs of these records, each with its first offset, in order. Empty if unknown.
    """

    offset: int
    epochs: Epochs = ()

    def cut(self, offset: int) -> Position:
        """Return the position in a log that ends at ``offset``."""
        return Position(offset, tuple(entry for entry in self.epochs if entry[1] < offset))

    @property
    def epoch(self) -> int:
        """The leader epoch of the last record; -1 if unknown."""
        return self.epochs[-1][0] if self.epochs else -1


def as_epochs(found: Iterable[tuple[int, int]]) -> Epochs:
    """Convert lists from JSON to epochs."""
    return tuple((int(epoch), int(first)) for epoch, first in found)
