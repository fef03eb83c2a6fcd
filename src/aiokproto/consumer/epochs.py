"""The leader epochs of what was fetched, and how far it agrees with the leader's log (KIP-101, KIP-279, KIP-320). Pure.

Each leader writes its epoch into its batches, so two logs agree up to where an epoch ends in the shorter of them. After
an unclean election the leader's log lacks records that were read before; offsets alone cannot show it once the log has
grown again. The leader is asked where the last fetched epoch ends in its log. If it has that epoch, everything fetched
before that end is in the log. If not, it responds with the largest epoch below it: what was fetched in later epochs is
lost, and if nothing was fetched in that one either, the next older fetched epoch has to be requested, as followers do.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EPOCHS = 100
"""Most epochs that are kept of one partition; each is one election while it was read. Older ones are forgotten."""

UNKNOWN = -1
"""Stands for an epoch or offset that is unknown."""


class EpochEnd(NamedTuple):
    """Where an epoch ends in the leader's log.

    Attributes:
        epoch: The largest epoch in the log that is not above the requested one; -1 if there is none.
        offset: The offset after its last record; -1 if there is none.
    """

    epoch: int
    offset: int


class AskOlder(NamedTuple):
    """The next epoch to ask the leader for."""

    epoch: int


class EpochHistory:
    """The epochs of one partition's fetched records, each with the first offset that was fetched of it.

    Epochs and offsets ascend. Batches of magic 0 and 1 have no epochs; what was fetched before them is then unknown.
    """

    __slots__ = ("_entries", "_start", "_start_epoch")

    def __init__(self, position: int = 0, epoch: int = UNKNOWN) -> None:
        """``epoch`` belongs to the position where fetching starts: it was committed or looked up with it.

        Whether it is the epoch of the record before or behind the position depends on who has set it, so it can be
        requested, but says nothing about single records.
        """
        self._start = position
        self._start_epoch = epoch
        self._entries: list[tuple[int, int]] = []

    @property
    def last(self) -> int:
        """The epoch of the next request; -1 if none is known."""
        return self._entries[-1][0] if self._entries else self._start_epoch

    @property
    def last_fetched(self) -> int:
        """The epoch of the last fetched batch; -1 if none was fetched, or if it has no epoch."""
        return self._entries[-1][0] if self._entries else UNKNOWN

    def add(self, epoch: int, offset: int) -> None:
        """Records of this epoch were fetched, from this offset on."""
        if epoch < self.last_fetched:
            # A batch without an epoch, or a topic that was created again on a cluster without topic ids.
            self._entries.clear()
            self._start_epoch = UNKNOWN
        if epoch > self.last_fetched:
            self._entries.append((epoch, offset))
            del self._entries[:-MAX_EPOCHS]

    def before(self, offset: int) -> int:
        """Return the epoch of the record before this offset, for commits; -1 if it is unknown."""
        for epoch, first in reversed(self._entries):
            if first < offset:
                return epoch
        return self._start_epoch if offset == self._start else UNKNOWN

    def rewind(self, offset: int, epoch: int) -> None:
        """Forget what was fetched from this offset on; ``epoch`` is that of the leader's log before it."""
        while self._entries and self._entries[-1][1] >= offset:
            self._entries.pop()
        if not self._entries:
            self._start, self._start_epoch = offset, epoch

    def agreed(self, asked: int, found: EpochEnd, fetched: int) -> int | AskOlder:
        """Return the offset up to which the leader's log has what was fetched, or the next epoch to ask for.

        Args:
            asked: The epoch that was requested; all later ones are known to be missing in its log.
            found: Its response.
            fetched: The offset up to which records were fetched.
        """
        end = fetched
        for epoch, first in reversed(self._entries):
            if epoch <= min(asked, found.epoch):
                # An epoch in between, of which nothing was fetched, says nothing about where this one ends.
                return min(found.offset, end) if epoch == found.epoch else AskOlder(epoch)
            end = first
        return min(found.offset, end)
