"""Writes into logs directly, like clients that no fault affects: plain records, and transactions of several
producers."""

from __future__ import annotations

from random import Random

from aiokproto.broker import Cluster
from aiokproto.broker.metadata.topics import Partition
from aiokproto.records import BatchRecord, encode
from aiokproto.records.control import encode_end_transaction

FIRST_TIME = 1_600_000_000_000
"""The timestamp of the first record of a partition (ms). Each later record is a second later."""


class Writer:
    """The records in the partitions of a topic.

    Attributes:
        values: The value of each record by offset, for each partition. Control records are left out.
        aborted: The partitions and offsets of records whose transaction was aborted, or is still open.
    """

    def __init__(self, random: Random, cluster: Cluster, topic: str, partitions: int) -> None:
        self.values: list[dict[int, bytes]] = [{} for _ in range(partitions)]
        self.aborted: set[tuple[int, int]] = set()
        self._random = random
        self._cluster = cluster
        self._topic = topic
        self._open: dict[tuple[int, int], list[int]] = {}
        self._sequences: dict[tuple[int, int], int] = {}
        self._written = 0

    def write(self, partition: int) -> None:
        """Append a batch without a transaction, or the next batch of an open transaction, or the first of a new one."""
        count = self._random.choice((1, 1, 3))
        producer = self._random.choice((None, 1, 2, 3))
        if producer is None:
            self._append(partition, count, -1, -1)
        else:
            key = (partition, producer)
            sequence = self._sequences.get(key, 0)
            self._sequences[key] = sequence + count
            offsets = self._append(partition, count, 1000 + producer, sequence)
            self._open.setdefault(key, []).extend(offsets)
            self.aborted.update((partition, offset) for offset in offsets)
            if self._random.random() < 0.6:
                self.end(partition, producer)

    def end(self, partition: int, producer: int) -> None:
        """Commit or abort a transaction."""
        offsets = self._open.pop((partition, producer), [])
        if not offsets:
            return
        committed = self._random.random() < 0.5
        marker = encode_end_transaction(
            committed=committed,
            coordinator_epoch=0,
            timestamp=FIRST_TIME,
            producer_id=1000 + producer,
            producer_epoch=0,
        )
        self._log(partition).append(marker, FIRST_TIME)
        if committed:
            self.aborted.difference_update((partition, offset) for offset in offsets)

    def stable(self, partition: int) -> list[int]:
        """Return the offsets of the records before the first open transaction."""
        begun = [offsets[0] for (number, _), offsets in self._open.items() if number == partition]
        return [offset for offset in sorted(self.values[partition]) if offset < min(begun, default=offset + 1)]

    def end_all(self) -> None:
        """End every transaction that is open."""
        for partition, producer in list(self._open):
            self.end(partition, producer)

    def _append(self, partition: int, count: int, producer_id: int, sequence: int) -> range:
        log = self._log(partition)
        first = log.log.end_offset
        records = []
        for index in range(count):
            self._written += 1
            value = b"%d" % self._written + bytes(self._random.choice((0, 10, 3000)))
            self.values[partition][first + index] = value
            records.append(BatchRecord(first + index, FIRST_TIME + 1000 * (first + index), None, value))
        data = encode(
            records,
            compression=self._random.choice(("none", "lz4")),
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            base_sequence=sequence,
            is_transactional=producer_id >= 0,
        )
        log.append(data, FIRST_TIME)
        return range(first, first + count)

    def _log(self, partition: int) -> Partition:
        return self._cluster._running.state.partition(self._topic, partition)
