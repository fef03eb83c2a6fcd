"""Which leader epoch began at which offset (KIP-101, KIP-320): how a client finds out that a log was truncated."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple


class EpochEnd(NamedTuple):
    """An epoch and the offset it ends at; both -1 when the log cannot tell."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(-1, -1)


class LeaderEpochCache:
    """The epochs of a log, kept in Kafka's checkpoint format: a version, a count, then "epoch offset" lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._saved = True

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if none is known."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """The epoch begins at that offset. One that is not newer than the last known is no news."""
        if epoch <= self.latest:
            if not self._saved:
                self._save_if_created()
            return
        # An epoch in which nothing was written has no part of the log.
        while self._starts and self._starts[-1] >= start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._save_if_created()

    def _save_if_created(self) -> None:
        """Write the checkpoint, unless nothing was written so far that it would be about."""
        self._saved = self._path.parent.exists()
        if self._saved:
            self.save()

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """The greatest epoch up to ``epoch`` and where it ends."""
        if not self._epochs or epoch < 0 or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return EpochEnd(epoch, log_end)
        after = bisect_right(self._epochs, epoch)
        return EpochEnd(self._epochs[after - 1] if after else epoch, self._starts[after])

    def of_offset(self, offset: int) -> int:
        """The epoch in which the record at ``offset`` was written; -1 if that is not known."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else -1

    def truncate_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before the log's new beginning."""
        keep = max(bisect_right(self._starts, start_offset) - 1, 0)
        if keep:
            del self._epochs[:keep], self._starts[:keep]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset

    def save(self) -> None:
        """Write the checkpoint."""
        lines = [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)]
        self._path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))

    def load(self, log_end: int) -> None:
        """Read the checkpoint, as far as it fits a log with that end. One that is damaged counts as none."""
        try:
            _, _, *lines = self._path.read_text().splitlines()
            entries = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
        except (OSError, ValueError):
            return
        for epoch, start in entries:
            if epoch > self.latest and start <= log_end:
                self._epochs.append(epoch)
                self._starts.append(start)
