"""What can be committed, and the result of a commit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from aiokproto.consumer.batch import FetchedBatch
from aiokproto.errors import CommitError, ConfigurationError, CorruptBatchError, KafkaError, copied
from aiokproto.group.arguments import Offsets, Partition, to_partition, to_position
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition

Committable = Record | FetchedBatch | list[Record] | Offsets[Partition]
"""The argument of :meth:`Consumer.commit`: processed records, or partitions with the offset to continue from."""


class CommitStatus(Enum):
    """Whether the offset of one partition was committed."""

    COMMITTED = "committed"
    LOST = "not assigned to this member, or not any more"
    REFUSED = "refused"


class CommitOutcome(NamedTuple):
    """The outcome of committing one partition's offset.

    Attributes:
        status: Whether it was committed.
        offset: The offset.
        error: Why it wasn't: a :class:`~aiokproto.errors.CommitError` if the partition is lost, a
            :class:`~aiokproto.errors.BrokerError` if the coordinator rejected it; None if it was committed.
    """

    status: CommitStatus
    offset: OffsetAndMetadata
    error: KafkaError | None = None


@dataclass(frozen=True)
class CommitResult:
    """The result of a commit.

    Attributes:
        outcomes: The outcome of each partition.
    """

    outcomes: Mapping[TopicPartition, CommitOutcome]

    @classmethod
    def of(
        cls, offsets: Mapping[TopicPartition, OffsetAndMetadata], failures: Mapping[TopicPartition, KafkaError]
    ) -> CommitResult:
        """Return the result of a commit of ``offsets``; ``failures`` contains an error for each that wasn't
        committed."""

        def outcome(partition: TopicPartition, offset: OffsetAndMetadata) -> CommitOutcome:
            error = failures.get(partition)
            if error is None:
                return CommitOutcome(CommitStatus.COMMITTED, offset)
            lost = isinstance(error, CommitError)
            return CommitOutcome(CommitStatus.LOST if lost else CommitStatus.REFUSED, offset, error)

        return cls({partition: outcome(partition, offset) for partition, offset in offsets.items()})

    def and_lost(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: CommitError) -> CommitResult:
        """Return the result plus offsets that weren't sent because their partitions are lost."""
        lost = {each: CommitOutcome(CommitStatus.LOST, offset, error) for each, offset in offsets.items()}
        return CommitResult({**self.outcomes, **lost})

    @property
    def committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that were committed."""
        return {each: outcome.offset for each, outcome in self.outcomes.items() if outcome.error is None}

    @property
    def lost(self) -> list[TopicPartition]:
        """The partitions that now belong to other members, which will process the records again."""
        return [each for each, outcome in self.outcomes.items() if outcome.status is CommitStatus.LOST]

    @property
    def refused(self) -> list[TopicPartition]:
        """The partitions whose offsets the coordinator rejected, because a permission is missing or the topic was
        deleted."""
        return [each for each, outcome in self.outcomes.items() if outcome.status is CommitStatus.REFUSED]

    def check(self) -> None:
        """Raise the error of a partition that wasn't committed, if there is one. Rejected partitions come first.

        Raises:
            BrokerError: The coordinator rejected the offset of a partition.
            CommitError: Some partitions belong to other members now.
        """
        for partition in (*self.refused, *self.lost):
            error = self.outcomes[partition].error
            assert error is not None, "it was not committed"
            raise copied(error)


def to_commit(what: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit for the argument of ``commit``.

    Raises:
        ConfigurationError: It cannot be committed. The error says what to pass instead.
    """
    if isinstance(what, Record):
        return _after([what])
    if isinstance(what, FetchedBatch):
        epoch = what.record_batches[-1].partition_leader_epoch if what.record_batches else -1
        return {TopicPartition(what.topic, what.partition): OffsetAndMetadata(what.next_offset, "", epoch)}
    if isinstance(what, Mapping):
        return {to_partition(partition): to_position(offset) for partition, offset in what.items()}
    if isinstance(what, list) and all(isinstance(each, Record) for each in what):
        return _after(what)
    raise ConfigurationError(f"commit() {_instead(what)}, not {what!r}")


def _after(records: list[Record]) -> dict[TopicPartition, OffsetAndMetadata]:
    last: dict[TopicPartition, Record] = {}
    for record in records:
        partition = TopicPartition(record.topic, record.partition)
        if partition not in last or record.offset > last[partition].offset:
            last[partition] = record
    return {each: after(record) for each, record in last.items()}


def after(record: Record[Any, Any]) -> OffsetAndMetadata:
    """Return the position after a record. A record that represents a damaged batch covers all offsets of the batch."""
    error = record.error
    offset = error.next_offset if isinstance(error, CorruptBatchError) else record.offset + 1
    return OffsetAndMetadata(offset, "", record.leader_epoch)


def _instead(what: Any) -> str:
    if isinstance(what, int):
        return "takes the record itself, or {partition: offset to continue from}"
    if isinstance(what, TopicPartition | OffsetAndMetadata | tuple):
        return "takes partitions with offsets as a dict: {TopicPartition(topic, 0): 5}"
    if isinstance(what, list) and any(isinstance(each, FetchedBatch) for each in what):
        return "takes one batch; the last one of a partition covers those before it"
    return "takes a record, a batch, a list of records, or a dict {TopicPartition(topic, 0): 5}"
