"""Makes the records that a member has acquired, of the batches that the broker sends whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aiokproto.share.ledger import AcquisitionLock, ShareRecord
from aiokproto.types import Header, TimestampType


class AcquiredRange(NamedTuple):
    """Offsets that one fetch has acquired, and how often their records were delivered, including this time."""

    first: int
    last: int
    delivery_count: int


class ShareRecordMaker:
    """A `Make` (see ``records.record``) of the acquired records of one batch; None for records of other members.

    Attributes:
        latest: The offset of the last record that was read, whosoever it is; -1 before the first.
    """

    def __init__(
        self,
        lock: AcquisitionLock,
        ranges: Sequence[AcquiredRange],
        timestamp_type: TimestampType,
        leader_epoch: int,
    ) -> None:
        """``ranges`` are in the order of their offsets."""
        self._topic, self._partition = lock.acquired.partition
        self._lock = lock
        self._ranges = ranges
        self._at = 0
        self.latest = -1
        self._timestamp_type = timestamp_type
        self._leader_epoch = leader_epoch

    def __call__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
    ) -> ShareRecord | None:
        """Return a record, None if it is not acquired. Called in the order of offsets."""
        self.latest = offset
        ranges = self._ranges
        while self._at < len(ranges) and ranges[self._at].last < offset:
            self._at += 1
        if self._at == len(ranges) or offset < ranges[self._at].first:
            return None
        return ShareRecord(
            self._topic,
            self._partition,
            offset,
            timestamp,
            key,
            value,
            headers,
            self._timestamp_type,
            self._leader_epoch,
            ranges[self._at].delivery_count,
            self._lock,
        )
