"""The leader epochs of fetched records, and how far the records agree with the leader's log (KIP-101, KIP-279,
KIP-320). Pure.

Each leader writes its epoch into its batches, so two logs agree up to where an epoch ends in the shorter of them. After
an unclean election, some records that were read before are missing from the leader's log, and offsets alone cannot show
that once the log has grown again. So the consumer asks the leader where the last fetched epoch ends in its log. If the
log has that epoch, it has all records that were fetched before that end. If it doesn't, the leader responds with the
largest epoch below it, and the records of later epochs are lost. If no record of the leader's epoch was fetched, the
consumer asks for the next older fetched epoch, as followers do.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EPOCHS = 100
"""Maximum number of epochs kept for one partition: one for each election while it was read. Older ones are
forgotten."""

UNKNOWN = -1
"""Represents an unknown epoch or offset."""


class EpochEnd(NamedTuple):
    """Where an epoch ends in the leader's log.

    Attributes:
        epoch: The largest epoch in the log that isn't above the requested one; -1 if there is none.
        offset: The offset after the epoch's last record; -1 if there is none.
    """

    epoch: int
    offset: int


class AskOlder(NamedTuple):
    """The next epoch to ask the leader for."""

    epoch: int


class EpochHistory:
    """The epochs of one partition's fetched records, each with its first fetched offset.

    Epochs and offsets ascend. Batches of magic 0 and 1 have no epochs, so the epochs before them are forgotten.
    """

    __slots__ = ("_entries", "_start", "_start_epoch")

    def __init__(self, position: int = 0, epoch: int = UNKNOWN) -> None:
        """``epoch`` was committed or looked up together with the position where fetching starts.

        Depending on its origin, it's the epoch of the record before or after the position. So it can be requested, but
        says nothing about individual records.
        """
        self._start = position
        self._start_epoch = epoch
        self._entries: list[tuple[int, int]] = []

    @property
    def last(self) -> int:
        """The epoch to request next; -1 if none is known."""
        return self._entries[-1][0] if self._entries else self._start_epoch

    @property
    def last_fetched(self) -> int:
        """The epoch of the last fetched batch; -1 if no batch was fetched, or if it has no epoch."""
        return self._entries[-1][0] if self._entries else UNKNOWN

    def add(self, epoch: int, offset: int) -> None:
        """Note that records of this epoch were fetched, starting at this offset."""
        if epoch < self.last_fetched:
            # The batch has no epoch, or the topic was created again on a cluster without topic ids.
            self._entries.clear()
            self._start_epoch = UNKNOWN
        if epoch > self.last_fetched:
            self._entries.append((epoch, offset))
            del self._entries[:-MAX_EPOCHS]

    def before(self, offset: int) -> int:
        """Return the epoch of the record before this offset, for commits; -1 if unknown."""
        for epoch, first in reversed(self._entries):
            if first < offset:
                return epoch
        return self._start_epoch if offset == self._start else UNKNOWN

    def rewind(self, offset: int, epoch: int) -> None:
        """Forget the epochs starting at this offset. ``epoch`` is the leader's epoch before it."""
        while self._entries and self._entries[-1][1] >= offset:
            self._entries.pop()
        if not self._entries:
            self._start, self._start_epoch = offset, epoch

    def agreed(self, asked: int, found: EpochEnd, fetched: int) -> int | AskOlder:
        """Return the offset where the leader's log diverges from the fetched records, or the next epoch to ask for.

        Args:
            asked: The epoch that was requested. All later epochs are known to be missing from the leader's log.
            found: The leader's response.
            fetched: The offset after the fetched records.
        """
        end = fetched
        for epoch, first in reversed(self._entries):
            if epoch <= min(asked, found.epoch):
                # found.offset is the end of found.epoch. If none of its records was fetched, ask for `epoch` itself.
                return min(found.offset, end) if epoch == found.epoch else AskOlder(epoch)
            end = first
        return min(found.offset, end)
