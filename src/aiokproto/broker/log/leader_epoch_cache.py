"""The start offset of each leader epoch (Kafka's LeaderEpochFileCache).

A follower or consumer requests the end offset of the epoch of its last record. If that offset is before its position,
another leader has truncated the log and appended other records since (KIP-101, KIP-320).

The file is derived from the batches, which store their leader epochs. If it's missing or damaged, it's rebuilt from
them. (Kafka rebuilds a missing or empty file when it recovers a log, and takes the log directory offline if the file is
damaged.) A rebuilt cache lacks epochs in which nothing was appended. If compaction has removed the first batches of an
epoch, that epoch starts at the first batch that remains.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from aiokproto.broker.log import checkpoints

log = logging.getLogger("aiokproto.broker")


class EpochEnd(NamedTuple):
    """A leader epoch and its end offset. Both are -1 if unknown."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(-1, -1)


class LeaderEpochCache:
    """The leader epochs of a log, stored as ``leader-epoch-checkpoint`` with entries of "epoch offset".

    Epochs and their start offsets both increase strictly.
    """

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
        # Epochs in which nothing was appended are removed: they have the same start offset.
        while self._starts and self._starts[-1] >= start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._save_if_created()

    def _save_if_created(self) -> None:
        """Write the checkpoint file if the log's directory exists. The first append creates the directory, and this is
        called again."""
        self._saved = self._path.parent.exists()
        if self._saved:
            self.save()

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """Return the greatest epoch not above ``epoch``, and its end offset."""
        # This log hasn't seen such a new epoch: the caller knows more than this leader, and must not truncate its log
        # because of it.
        if not self._epochs or epoch < 0 or epoch > self.latest:
            return UNDEFINED
        # The current epoch has no end yet: its records end at the log's end.
        if epoch == self.latest:
            return EpochEnd(epoch, log_end)
        after = bisect_right(self._epochs, epoch)
        # An epoch ends where the next known epoch starts. For an epoch before the first known one, the requested epoch
        # is returned, as in Kafka.
        return EpochEnd(self._epochs[after - 1] if after else epoch, self._starts[after])

    def of_offset(self, offset: int) -> int:
        """Return the epoch in which the record at ``offset`` was appended; -1 if unknown."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else -1

    def truncate_start(self, start_offset: int) -> None:
        """Remove the epochs that end before the log's new start offset."""
        keep = max(bisect_right(self._starts, start_offset) - 1, 0)
        if keep:
            del self._epochs[:keep], self._starts[:keep]
        # The epoch of the new first record stays, because clients may request it.
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset

    def save(self) -> None:
        """Write the checkpoint file.

        The directory isn't flushed, so the old file may reappear after a crash of the machine. Recovery adds what that
        file lacks: segments that aren't replayed were flushed together with the directory.
        """
        entries = zip(self._epochs, self._starts, strict=True)
        checkpoints.write_entries(self._path, [f"{epoch} {start}" for epoch, start in entries])

    def load(self, log_end: int) -> bool:
        """Read the checkpoint file. Epochs that start past the end of the log are ignored.

        Returns:
            Whether the file is intact. If not, the cache is empty, and :meth:`rebuild` fills it.
        """
        entries = self._read()
        if entries is None:
            return False
        for epoch, start in entries:
            if start <= log_end:
                self._epochs.append(epoch)
                self._starts.append(start)
        return True

    def _read(self) -> list[tuple[int, int]] | None:
        lines = checkpoints.read_entries(self._path)
        if lines is None:
            return None
        try:
            entries = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
        except ValueError:
            return None
        last = (-1, -1)
        for entry in entries:
            if entry[0] <= last[0] or entry[1] <= last[1]:
                return None
            last = entry
        return entries

    def rebuild(self, batches: Iterable[tuple[int, int]]) -> None:
        """Fill the empty cache from the leader epoch and base offset of each batch, and write the checkpoint file."""
        if self._path.exists():
            log.warning("%s is damaged: rebuilding it from the log's batches", self._path)
        for epoch, start in batches:
            if epoch > self.latest:
                self._epochs.append(epoch)
                self._starts.append(start)
        self.save()
