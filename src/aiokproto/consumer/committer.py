"""The offsets that a consumer commits to its group, and its identity in the group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiokproto.consumer.part import ConsumerPart
from aiokproto.consumer.progress import Progress
from aiokproto.errors import CommitError, ConfigurationError
from aiokproto.foreign_calls import foreign_commit
from aiokproto.group.arguments import Offsets, Partition, to_offsets, to_partition, to_position
from aiokproto.types import GroupMetadata, OffsetAndMetadata, Record, TopicPartition


class Committer(ConsumerPart):
    """Commits and reads the group's offsets."""

    @foreign_commit
    async def commit(
        self,
        offsets: Offsets[Partition] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets: by default all positions, so that everything delivered counts as processed.

        During a rebalance it waits for the rebalance to end. After a cancellation the offsets may be committed or not.

        Args:
            offsets: Partition → the offset to continue from, that is the last processed one plus one.
            timeout_ms: By default ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: There is no group, or an offset is out of range.
            CommitError: Some partitions belong to other members now; the others are committed.
            BrokerError: The coordinator refused the commit.
            DeadlineError: It was not confirmed in time.
        """
        self._group()
        if isinstance(offsets, Record):
            raise ConfigurationError(
                "commit() takes {(record.topic, record.partition): record.offset + 1}, the offset to continue from"
            )
        if offsets is None:
            # As for positions(): whoever calls commit() has processed what it has.
            chosen = self._assignment.committable(processed=False)
        else:
            given = to_offsets("commit", offsets)
            chosen = {to_partition(partition): to_position(offset) for partition, offset in given.items()}
        await self._engine.commit(chosen, self._seconds(timeout_ms))

    async def committed(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None where it has none; of all assigned partitions if none are given.

        Waits for open transactions that commit offsets of these partitions (KIP-447).

        Raises:
            ConfigurationError: There is no group.
            BrokerError: The coordinator refused the request.
            DeadlineError: No response in time.
        """
        chosen = self._chosen(partitions)
        self._group()
        assert self._engine.offsets is not None
        return await self._engine.offsets.committed(chosen, self._seconds(timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's current identity in its group, for the offsets of a transaction (KIP-447). No I/O.

        Raises:
            ConfigurationError: There is no group.
            CommitError: It is in no generation of the group: its partitions may belong to other members.
        """
        self._group()
        member = self._engine.member
        assert member is not None, "there is a group"
        # Without a generation the coordinator checks nothing, which is right only for partitions that the group does
        # not assign.
        if self._engine.subscription.partitions is None and member.removed:
            raise CommitError(f"the consumer is in no generation of its group: {member.state}")
        return member.metadata

    def progress(self, records: Iterable[Record[Any, Any]]) -> Progress:
        """Return how far ``records``, which were just delivered, have brought this consumer. No I/O.

        For transactions: ``txn.send_offsets(progress)`` commits exactly these records, and ``progress.rewind()`` lets
        them come again after an abort.

        Raises:
            ConfigurationError: There is no group, or a partition of the records is not assigned.
        """
        self._group()
        return Progress(records, self._assignment, self.group_metadata)
