"""The start offset of each leader epoch (Kafka's LeaderEpochFileCache). Clients detect truncation by it (KIP-101,
KIP-320)."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple


class EpochEnd(NamedTuple):
    """A leader epoch and its end offset; both -1 if unknown."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(-1, -1)


class LeaderEpochCache:
    """The leader epochs of a log, stored as ``leader-epoch-checkpoint``: a version, a count, then lines of "epoch
    offset"."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._saved = True

    @property
    def latest(self) -> int:
        """The latest epoch; -1 if none is known."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that an epoch starts at an offset. An epoch that is not newer than the latest one is ignored."""
        if epoch <= self.latest:
            if not self._saved:
                self._save_if_created()
            return
        # Epochs in which nothing was appended are removed: their start offset is this one's.
        while self._starts and self._starts[-1] >= start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._save_if_created()

    def _save_if_created(self) -> None:
        """Write the checkpoint file if the log's directory exists; the first append creates it, and calls this
        again."""
        self._saved = self._path.parent.exists()
        if self._saved:
            self.save()

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """Return the greatest epoch not above ``epoch``, and its end offset."""
        if not self._epochs or epoch < 0 or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return EpochEnd(epoch, log_end)
        after = bisect_right(self._epochs, epoch)
        return EpochEnd(self._epochs[after - 1] if after else epoch, self._starts[after])

    def of_offset(self, offset: int) -> int:
        """Return the epoch in which the record at ``offset`` was appended; -1 if unknown."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else -1

    def truncate_start(self, start_offset: int) -> None:
        """Remove the epochs that end before the log's new start offset."""
        keep = max(bisect_right(self._starts, start_offset) - 1, 0)
        if keep:
            del self._epochs[:keep], self._starts[:keep]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset

    def save(self) -> None:
        """Write the checkpoint file."""
        lines = [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)]
        self._path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))

    def load(self, log_end: int) -> None:
        """Read the checkpoint file, without epochs that start beyond the log's end. A damaged file is ignored."""
        try:
            _, _, *lines = self._path.read_text().splitlines()
            entries = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
        except (OSError, ValueError):
            return
        for epoch, start in entries:
            if epoch > self.latest and start <= log_end:
                self._epochs.append(epoch)
                self._starts.append(start)
