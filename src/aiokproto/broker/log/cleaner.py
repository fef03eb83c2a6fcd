"""Decides what compaction retains, batch by batch (Kafka's Cleaner). It's pure: it doesn't access files, and the
current time is passed in.

There are two passes. The first builds an offset map: the newest offset of each key. The second rewrites each batch,
keeping only the records to retain:

- The newest record of each key is retained.
- A tombstone (a record without value) is retained until its batch's delete horizon. The horizon is written into the
  batch when compaction first sees it (KIP-534), so every consumer has ``delete.retention.ms`` to read the tombstone.
- Records of aborted transactions are removed. The marker of a transaction whose records are all removed expires like a
  tombstone.
- The last batch of each producer, and the last batch of the cleaned range, are retained even without records: the
  producer's sequence number and the offset would be lost with them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from hashlib import blake2b
from heapq import heapify, heappop
from typing import NamedTuple

from aiokproto.broker.log.rewrite import empty, rewrite
from aiokproto.codec.payloads.transactions import AbortedTxn
from aiokproto.records import ControlType, RecordBatch
from aiokproto.records.control import batch_control_type

_HORIZON_MAGIC = 2
"""The first format whose batches can contain a delete horizon, and can be empty."""

_DIGEST_BYTES = 16
"""Keys of this length or longer are replaced by their digest, as in Kafka's SkimpyOffsetMap, to limit memory."""


class OffsetMap:
    """The newest offset of each key.

    Attributes:
        latest: The last offset that the map covers.
    """

    def __init__(self, limit: int) -> None:
        """Create a map of at most ``limit`` keys."""
        self.latest = -1
        self._limit = limit
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Add a record. Return False once the map is full."""
        # Offsets don't have to be compared: batches are read in offset order, so the last record is the newest.
        self._offsets[_short(key)] = offset
        return len(self._offsets) <= self._limit

    def superseded(self, key: bytes, offset: int) -> bool:
        """Return whether a newer record has the same key."""
        return offset < self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class CleanedTransactionMetadata:
    """Tracks open and aborted transactions while batches are read in offset order.

    Attributes:
        retained: Aborted transactions whose marker is retained, for the new segment's transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """``aborted`` are the aborted transactions of the batches that will be read."""
        self.retained: list[AbortedTxn] = []
        self._upcoming = [(txn.first_offset, number, txn) for number, txn in enumerate(aborted)]
        heapify(self._upcoming)
        # The current aborted transaction of each producer id, and the producers for which one of its data batches has
        # been read.
        self._aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def should_discard(self, batch: RecordBatch) -> bool:
        """Return whether the next batch can be discarded: it contains aborted records, or the marker of a transaction
        without records."""
        while self._upcoming and self._upcoming[0][0] <= batch.last_offset:
            aborted = heappop(self._upcoming)[2]
            self._aborted.setdefault(aborted.producer_id, aborted)
        # Check for control batches first: the marker of an aborted transaction ends it, and isn't one of its records.
        if batch.is_control:
            return self._ended(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _ended(self, batch: RecordBatch) -> bool:
        # An earlier run removed the marker, but retained the batch for the producer's epoch or the offset.
        if not batch.count:
            return True
        kind = batch_control_type(batch)
        producer_id = batch.producer_id
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            seen = producer_id in self._seen
            self._seen.discard(producer_id)
            if aborted is not None and seen:
                self.retained.append(aborted)
                return False
            return True
        if kind is ControlType.COMMIT:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            # The marker can be removed only once all records of the transaction are gone.
            return not seen
        return False


def build_offset_map(
    batches: Iterable[RecordBatch], start: int, offsets: OffsetMap, transactions: CleanedTransactionMetadata
) -> Generator[None, None, bool]:
    """Add the newest record of each key at or after ``start`` to the map, in short steps. Return False once the map is
    full."""
    for batch in batches:
        if batch.is_control:
            transactions.should_discard(batch)
        elif not transactions.should_discard(batch):
            slices = batch.slices(_offset_and_key)
            while not slices.ended:
                for offset, key in slices.read():
                    # The key that exceeds the limit is in the map, although ``latest`` is below its offset. That
                    # doesn't lose records: the key supersedes only older records, and all records after ``latest`` are
                    # retained.
                    if key is not None and offset >= start and not offsets.put(key, offset):
                        return False
                    offsets.latest = max(offsets.latest, offset)
                if not slices.ended:
                    yield
        offsets.latest = max(offsets.latest, batch.last_offset)
    return True


def _offset_and_key(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: object
) -> tuple[int, bytes | None]:
    return offset, key


def _offset_key_and_tombstone(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: object
) -> tuple[int, bytes | None, bool]:
    return offset, key, value is None


class LastRecord(NamedTuple):
    """A producer's epoch and the offset of its last record; None if the epoch started with a marker."""

    epoch: int
    offset: int | None


class Cleaner:
    """Cleans the batches of a log in offset order."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactionMetadata,
        producers: Mapping[int, LastRecord],
        end: int,
        now: int,
        delete_retention_ms: int,
    ) -> None:
        """Create a cleaner.

        Args:
            offsets: The newest offset of each key.
            transactions: The transactions of the batches that will be read.
            producers: The last record of each producer in the log.
            end: The end of the cleaned range. The last batch before it is retained, possibly empty.
            now: The time (ms).
            delete_retention_ms: How long tombstones and markers are retained, counting from now.
        """
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._end = end
        self._now = now
        self._horizon = now + delete_retention_ms

    def clean(
        self, batch: RecordBatch, *, expired: bool = False
    ) -> Generator[None, None, bytearray | memoryview | None]:
        """Return the batch to write in place of the next one, or None to drop it. Runs in short steps.

        Args:
            batch: The next batch.
            expired: Whether to remove tombstones of magic 0 and 1, which can't contain a delete horizon.
        """
        # This comes first, and for every batch, because should_discard() tracks the transactions.
        should_discard = self._transactions.should_discard(batch)
        horizon = batch.delete_horizon
        if batch.is_control:
            # Removing a marker is delayed as for tombstones: a consumer that has read some of the transaction's records
            # must still see how it ended.
            drop = should_discard and (not batch.count or (horizon is not None and horizon <= self._now))
            keep = bytearray([not drop]) * batch.count
            wants_horizon = should_discard
        elif should_discard:
            keep, wants_horizon = bytearray(), False
        else:
            due = expired if batch.magic < _HORIZON_MAGIC else horizon is not None and horizon <= self._now
            keep, tombstones = yield from self._judge(batch, due)
            wants_horizon = tombstones and batch.magic >= _HORIZON_MAGIC
        # An empty batch is retained if its header is needed (Kafka's BatchRetention.RETAIN_EMPTY).
        if not any(keep):
            return empty(batch) if self._must_retain(batch) else None
        if wants_horizon and horizon is None:
            return (yield from rewrite(batch, keep, self._horizon))
        # An unchanged batch keeps its bytes, because compressing it again would take time, and a new CRC would hide
        # damage.
        return batch.raw if all(keep) else (yield from rewrite(batch, keep))

    def _judge(self, batch: RecordBatch, due: bool) -> Generator[None, None, tuple[bytearray, bool]]:
        """Return for each record whether it stays, and whether any of the records that stay is a tombstone. If ``due``
        is set, no tombstone stays."""
        tombstones = False
        # Each record takes one byte here: a batch can have millions.
        keep = bytearray()
        slices = batch.slices(_offset_key_and_tombstone)
        while not slices.ended:
            for offset, key, tombstone in slices.read():
                stays = self._is_retained(offset, key, tombstone and due)
                keep.append(stays)
                tombstones = tombstones or (stays and tombstone)
            if not slices.ended:
                yield
        return keep, tombstones

    def _is_retained(self, offset: int, key: bytes | None, expired: bool) -> bool:
        # The map doesn't cover offsets after ``latest``: whether newer records exist there is unknown until the next
        # run.
        if offset > self._offsets.latest:
            return True
        # As in Kafka, records without a key are removed. They were written before the topic was compacted, and can
        # never be superseded.
        return key is not None and not expired and not self._offsets.superseded(key, offset)

    def _must_retain(self, batch: RecordBatch) -> bool:
        if batch.magic < _HORIZON_MAGIC:
            # These formats don't have empty batches. The name of the next segment preserves the offset.
            return False
        if batch.next_offset == self._end:
            return True
        last = self._producers.get(batch.producer_id)
        if last is None:
            return False
        if last.offset is not None:
            return batch.last_offset == last.offset
        # If the producer has no batch in its epoch, only the marker that started the epoch fences zombies with an older
        # epoch.
        return batch.is_control and batch.producer_epoch == last.epoch
