"""Loads a log from its files (Kafka's LogLoader): after a clean shutdown, after a crash, and after a crash during a
swap."""

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
    """Return the segments of a log, at least one.

    Segments before the recovery point are trusted. All other segments are recovered: each batch is checked, and the log
    is truncated at the first invalid one, together with all later segments.
    """
    _complete_swaps(directory, config)
    interval = config.index_interval_bytes
    bases = _bases(directory)
    segments: list[Segment] = []
    for base, after in pairwise([*bases, None]):
        assert base is not None
        # The active segment isn't trusted after a crash: it was being written.
        if checkpoint.clean_shutdown or (after is not None and after <= checkpoint.recovery_point):
            segment = Segment.load(directory, base, interval)
            whole = True
        else:
            segment = Segment(directory, base, interval)
            whole = segment.recover()
        segments.append(segment)
        # Batches after the first invalid one can't be trusted, even if they are valid themselves.
        if not whole:
            for later in bases[len(segments) :]:
                Segment(directory, later, interval).remove()
            break
        # Compaction may have removed the last records of a segment, but the next segment's name is its end offset.
        segment.next_offset = segment.next_offset if after is None else after
    return segments or [Segment(directory, 0, interval)]


def open_producers(directory: Path, segments: list[Segment], producers: ProducerStateManager, now: int) -> int:
    """Restore producer state from the newest snapshot at the start of a segment.

    The snapshot that a clean shutdown writes at the log's end isn't used: a snapshot contains only the last batch of
    each producer, while replaying the active segment restores the last five, which are needed to recognize retries.

    Args:
        directory: The log's directory.
        segments: Its segments. The transaction indexes of segments before the snapshot are loaded.
        producers: The state to restore.
        now: The time (ms) at which the producers count as last seen.

    Returns:
        The offset at which to start replaying batches.
    """
    bases = [segment.base_offset for segment in segments]
    # A snapshot at any other offset belongs to segments that no longer exist, or to the end of a log that has since
    # grown.
    producer_snapshots.retain(directory, bases)
    found = (
        index for index in range(len(bases) - 1, 0, -1) if producer_snapshots.load(directory, bases[index]) is not None
    )
    newest = next(found, 0)
    for index, segment in enumerate(segments[:newest]):
        known = TransactionIndex.load(segment.path(TXN_INDEX))
        if known is None:
            # A damaged transaction index can only be rebuilt by replaying the whole log.
            for earlier in segments[:index]:
                earlier.aborted = TransactionIndex()
            newest = 0
            break
        segment.aborted = known
    producers.restore(producer_snapshots.load(directory, bases[newest]) or [], now)
    return bases[newest]


def save_producers(directory: Path, segments: list[Segment], producers: ProducerStateManager) -> None:
    """Write a snapshot at the start of the active segment, so the next start replays only that segment."""
    for segment in segments[:-1]:
        segment.close()
    # With the snapshot, older segments won't be replayed, so their transaction indexes must be on disk first.
    sync(file for segment in segments[:-1] for file in segment.files())
    producer_snapshots.save(directory, segments[-1].base_offset, producers.snapshot())


def _bases(directory: Path, kind: str = LOG) -> list[int]:
    names = [path.name.removesuffix(kind) for path in directory.glob(f"*{kind}")]
    return sorted(int(name) for name in names if name.isdecimal())


def _complete_swaps(directory: Path, config: LogConfig) -> None:
    """Finish or undo interrupted changes: a ``.swap`` segment replaces the segments in its range, and all other
    temporary files are removed."""
    for ending in (CLEANED, DELETED):
        for path in directory.glob(f"*{ending}"):
            path.unlink()
    for base in _bases(directory, LOG + SWAP):
        cleaned = Segment(directory, base, config.index_interval_bytes, SWAP)
        # Rebuild the indexes: their files may have either suffix, because they are renamed before the ``.log`` file.
        cleaned.recover()
        # The sources aren't recorded anywhere. They are the segments that start in its range, at least the one with the
        # same base offset.
        replaced = [old for old in _bases(directory) if base <= old < max(cleaned.next_offset, base + 1)]
        for old in replaced:
            Segment(directory, old, config.index_interval_bytes).remove()
        cleaned.rename("")
    # Leftover index files. Segment.rename renames them before the .log file, so they don't have a .log file.
    for kind in BESIDE:
        for path in directory.glob(f"*{kind}{SWAP}"):
            path.unlink()
