"""Records of share groups: what the application gets, and its handle to acknowledge them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.types import Header, Record, TimestampType

if TYPE_CHECKING:
    from aiokproto.share.ledger import AcquisitionLock, QueuedAck


class RecordState(Enum):
    """Where a delivered record is on its way to an outcome."""

    HELD = "being processed"
    QUEUED = "acknowledged, not sent"
    SENT = "acknowledged, sent"
    DONE = "the outcome is known"


class AcquiredRange(NamedTuple):
    """Offsets that one fetch has acquired, and how often their records were delivered, including this time."""

    first: int
    last: int
    delivery_count: int


class ShareRecord(Record):
    """A record that is locked for this member of a share group.

    Attributes:
        delivery_count: How often it was delivered to members of the group, including this time (from 1). The group's
            ``share.delivery.count.limit`` ends deliveries.
        acknowledgement: What it was acknowledged as; None while it is not.
    """

    __slots__ = ("_ack", "_lock", "_state", "acknowledgement", "delivery_count")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
        timestamp_type: TimestampType,
        leader_epoch: int,
        delivery_count: int,
        lock: AcquisitionLock,
    ) -> None:
        super().__init__(topic, partition, offset, timestamp, key, value, headers, timestamp_type, leader_epoch)
        self.delivery_count = delivery_count
        self.acknowledgement: Acknowledgement | None = None
        self._lock = lock
        self._state = RecordState.HELD
        self._ack: QueuedAck | None = None

    @property
    def lock_deadline(self) -> float:
        """When its acquisition lock ends, on the event loop's clock (``loop.time()``); later after a renewal.

        The broker's lock ends a little later: the client counts from when it sent the request.
        """
        return self._lock.deadline

    def __repr__(self) -> str:
        return f"Share{super().__repr__()[:-1]}, delivery_count={self.delivery_count})"

    def __reduce__(self) -> tuple[type[Record], tuple[object, ...]]:
        # A copy or a record in another process cannot be acknowledged: it is a plain record.
        return Record, (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.key,
            self.value,
            self.headers,
            self.timestamp_type,
            self.leader_epoch,
        )


class ShareRecordMaker:
    """A `Make` (see ``records.record``) of the acquired records of one batch; None for records of other members."""

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
        self._timestamp_type = timestamp_type
        self._leader_epoch = leader_epoch

    def __call__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
    ) -> ShareRecord | None:
        """Return a record, None if it is not acquired. Called in the order of offsets."""
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
