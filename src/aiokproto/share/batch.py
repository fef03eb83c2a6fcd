"""The batches that :meth:`ShareConsumer.batches` delivers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiokproto.share.ledger import ShareRecord


class ShareBatch:
    """Records of one partition that were acquired together and stored in one record batch, in order; not empty.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        records: The records. Offsets can have gaps: other members have those.
    """

    __slots__ = ("partition", "records", "topic")

    def __init__(self, records: Sequence[ShareRecord]) -> None:
        self.topic = records[0].topic
        self.partition = records[0].partition
        self.records = records

    def __iter__(self) -> Iterator[ShareRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def lock_deadline(self) -> float:
        """When the first acquisition lock of the records ends, on the event loop's clock."""
        return min(record.lock_deadline for record in self.records)

    def __repr__(self) -> str:
        first, last = self.records[0].offset, self.records[-1].offset
        return (
            f"ShareBatch(topic={self.topic!r}, partition={self.partition}, first_offset={first}, "
            f"last_offset={last}, records={len(self.records)})"
        )
