"""From what is on disk to segments: after a clean end, after a crash, and after one in the middle of a change."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from aiokproto.broker.log import producer_snapshots
from aiokproto.broker.log.config import LogCheckpoint, LogConfig
from aiokproto.broker.log.fsync import sync
from aiokproto.broker.log.producer_state import ProducerStateManager
from aiokproto.broker.log.segment import BESIDE, CLEANED, DELETED, LOG, SWAP, TXN_INDEX, Segment
from aiokproto.broker.log.transaction_index import TransactionIndex


def open_segments(directory: Path, config: LogConfig, checkpoint: LogCheckpoint) -> list[Segment]:
    """The segments of a log, at least one.

    What was on disk for certain is trusted. Beyond that each batch is checked, and the log is cut at the first one that
    is not valid: whatever follows it goes too.
    """
    _finish_changes(directory, config)
    interval = config.index_interval_bytes
    bases = _bases(directory)
    segments: list[Segment] = []
    for base, after in pairwise([*bases, None]):
        assert base is not None
        if checkpoint.clean_shutdown or (after is not None and after <= checkpoint.recovery_point):
            segment = Segment.load(directory, base, interval)
            whole = True
        else:
            segment = Segment(directory, base, interval)
            whole = segment.recover()
        segments.append(segment)
        if not whole:
            for later in bases[len(segments) :]:
                Segment(directory, later, interval).remove()
            break
        # Compaction may have removed the last records of a segment that is not the newest.
        segment.next_offset = segment.next_offset if after is None else after
    return segments or [Segment(directory, 0, interval)]


def open_producers(directory: Path, segments: list[Segment], producers: ProducerStateManager, now: int) -> int:
    """Bring back producers from the newest snapshot that goes before the newest segment.

    One at the log's end is not looked at: to go through the newest segment brings back the last five batches of each
    producer, of which a snapshot has but one.

    Args:
        directory: The log's directory.
        segments: Its segments, of which those before the snapshot get their aborted transactions.
        producers: What is to be brought back.
        now: The time (ms) that counts as when they were last seen.

    Returns:
        The offset from which on batches have to be noted again.
    """
    bases = [segment.base_offset for segment in segments]
    producer_snapshots.keep(directory, bases)
    found = (at for at in range(len(bases) - 1, 0, -1) if producer_snapshots.load(directory, bases[at]) is not None)
    newest = next(found, 0)
    for at, segment in enumerate(segments[:newest]):
        known = TransactionIndex.load(segment.path(TXN_INDEX))
        if known is None:
            # Only going through all of it can tell which transactions those were.
            for noted in segments[:at]:
                noted.aborted = TransactionIndex()
            newest = 0
            break
        segment.aborted = known
    producers.restore(producer_snapshots.load(directory, bases[newest]) or [], now)
    return bases[newest]


def save_producers(directory: Path, segments: list[Segment], producers: ProducerStateManager) -> None:
    """Keep what all segments but the newest say of producers, so that the next time only that one is gone through."""
    for segment in segments[:-1]:
        segment.close()
    # A snapshot stands for what is in the indexes of aborted transactions: it must not outlive them.
    sync(file for segment in segments[:-1] for file in segment.files())
    producer_snapshots.save(directory, segments[-1].base_offset, producers.snapshot())


def _bases(directory: Path, kind: str = LOG) -> list[int]:
    names = [path.name.removesuffix(kind) for path in directory.glob(f"*{kind}")]
    return sorted(int(name) for name in names if name.isdecimal())


def _finish_changes(directory: Path, config: LogConfig) -> None:
    """Undo what was begun and finish what was decided: a segment that ends in ``.swap`` takes the place of others."""
    for ending in (CLEANED, DELETED):
        for path in directory.glob(f"*{ending}"):
            path.unlink()
    for base in _bases(directory, LOG + SWAP):
        cleaned = Segment(directory, base, config.index_interval_bytes, SWAP)
        cleaned.recover()
        replaced = [old for old in _bases(directory) if base <= old < max(cleaned.next_offset, base + 1)]
        for old in replaced:
            Segment(directory, old, config.index_interval_bytes).remove()
        cleaned.rename("")
    # Without the log these belong to nothing: they are renamed before it.
    for kind in BESIDE:
        for path in directory.glob(f"*{kind}{SWAP}"):
            path.unlink()
