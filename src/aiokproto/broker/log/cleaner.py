"""What compaction keeps of a log, batch by batch. Pure: no files, the time is passed in.

Of each key the newest record stays. A tombstone, a record without value, stays until its batch's delete horizon has
come, which is written into the batch when compaction first meets it (KIP-534); so does the marker of a transaction of
which nothing else is left. Records of aborted transactions go. The last batch of a producer, and of what is cleaned,
stays even if it is empty: with it, its offset and sequence number would be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from heapq import heapify, heappop
from typing import NamedTuple

from aiokproto.broker.log.rewrite import empty, rewrite
from aiokproto.codec.payloads.transactions import AbortedTxn
from aiokproto.records import ControlType, RecordBatch
from aiokproto.records.control import batch_control_type

_HORIZON_MAGIC = 2
"""The format in which a batch can say when its tombstones may go, and can be empty."""

_DIGEST_BYTES = 16
"""Longer keys are known by their digest."""


class OffsetMap:
    """The newest offset of each key.

    Attributes:
        latest: The offset up to which the log is known here.
    """

    def __init__(self, limit: int) -> None:
        """Take up to ``limit`` keys."""
        self.latest = -1
        self._limit = limit
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note a record; False if the map is full."""
        self._offsets[_short(key)] = offset
        return len(self._offsets) <= self._limit

    def superseded(self, key: bytes, offset: int) -> bool:
        """Whether there is a newer record of the key."""
        return offset < self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class CleanedTransactionMetadata:
    """Which transactions the batches are of, as they come: how they end, and whether anything is left of them.

    Attributes:
        kept: The aborted ones of which something is left, and therefore the marker.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """Take the aborted transactions of the batches that will come."""
        self.retained: list[AbortedTxn] = []
        self._upcoming = [(one.first_offset, number, one) for number, one in enumerate(aborted)]
        heapify(self._upcoming)
        # By producer: the aborted transaction, and whether a batch of it has come.
        self._aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def should_discard(self, batch: RecordBatch) -> bool:
        """Whether the records of the next batch are of no use: aborted, or the marker of a transaction that is gone."""
        while self._upcoming and self._upcoming[0][0] <= batch.last_offset:
            aborted = heappop(self._upcoming)[2]
            self._aborted.setdefault(aborted.producer_id, aborted)
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
            return not seen
        return False


def build_offset_map(
    batches: Iterable[RecordBatch], start: int, offsets: OffsetMap, transactions: CleanedTransactionMetadata
) -> bool:
    """Note the newest record of each key, from the offset ``start`` on; False once the map is full."""
    for batch in batches:
        if batch.is_control:
            transactions.should_discard(batch)
        elif not transactions.should_discard(batch):
            for offset, key in batch.records(lambda offset, _timestamp, key, _value, _headers: (offset, key)):
                if key is not None and offset >= start and not offsets.put(key, offset):
                    return False
                offsets.latest = max(offsets.latest, offset)
        offsets.latest = max(offsets.latest, batch.last_offset)
    return True


class LastRecord(NamedTuple):
    """A producer's epoch and the offset of the last record it wrote, None if a marker began the epoch."""

    epoch: int
    offset: int | None


class Cleaner:
    """Goes through the batches of a log in their order, and says what to write in their place."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactionMetadata,
        producers: Mapping[int, LastRecord],
        end: int,
        now: int,
        delete_retention_ms: int,
    ) -> None:
        """Take what is known beforehand.

        Args:
            offsets: The newest offset of each key.
            transactions: The transactions of the batches to come.
            producers: The producers that the log knows.
            end: Where cleaning ends: the batch before it stays, if only as an empty one.
            now: The time (ms).
            delete_retention_ms: For how long from now tombstones and markers stay.
        """
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._end = end
        self._now = now
        self._horizon = now + delete_retention_ms

    def clean(self, batch: RecordBatch, *, expired: bool = False) -> bytearray | memoryview | None:
        """What to write in place of the batch; None for nothing.

        Args:
            batch: The next batch.
            expired: Whether tombstones may go that have no delete horizon because their format knows none.
        """
        should_discard = self._transactions.should_discard(batch)
        horizon = batch.delete_horizon
        if batch.is_control:
            drop = should_discard and (not batch.count or (horizon is not None and horizon <= self._now))
            keep = [not drop] * batch.count
            wants_horizon = should_discard
        elif should_discard:
            keep, wants_horizon = [], False
        else:
            due = expired if batch.magic < _HORIZON_MAGIC else horizon is not None and horizon <= self._now
            found = batch.records(lambda offset, _time, key, value, _headers: (offset, key, value is None))
            keep = [self._stays(offset, key, tombstone and due) for offset, key, tombstone in found]
            tombstones = any(stays and tombstone for stays, (_, _, tombstone) in zip(keep, found, strict=True))
            wants_horizon = tombstones and batch.magic >= _HORIZON_MAGIC
        if not any(keep):
            return empty(batch) if self._must_stay(batch) else None
        if wants_horizon and horizon is None:
            return rewrite(batch, keep, self._horizon)
        return batch.raw if all(keep) else rewrite(batch, keep)

    def _stays(self, offset: int, key: bytes | None, expired: bool) -> bool:
        if offset > self._offsets.latest:
            return True
        return key is not None and not expired and not self._offsets.superseded(key, offset)

    def _must_stay(self, batch: RecordBatch) -> bool:
        if batch.magic < _HORIZON_MAGIC:
            # These formats have no empty batch; the name of the segment that follows keeps the offset.
            return False
        if batch.next_offset == self._end:
            return True
        last = self._producers.get(batch.producer_id)
        if last is None:
            return False
        if last.offset is not None:
            return batch.last_offset == last.offset
        return batch.is_control and batch.producer_epoch == last.epoch
