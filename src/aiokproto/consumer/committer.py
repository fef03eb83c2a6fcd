"""The offsets that a consumer commits to its group, and its identity in the group."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from aiokproto.consumer.commit_result import CommitResult, Committable, to_commit
from aiokproto.consumer.part import ConsumerPart
from aiokproto.consumer.progress import Progress
from aiokproto.errors import CommitError, ConfigurationError
from aiokproto.foreign_calls import foreign_commit, named_after
from aiokproto.group.arguments import Partition
from aiokproto.types import GroupMetadata, OffsetAndMetadata, Record, TopicPartition

log = logging.getLogger("aiokproto.consumer")


@named_after("Consumer")
class Committer(ConsumerPart):
    """Commits and reads the group's offsets."""

    @foreign_commit
    async def commit(
        self,
        offsets: Committable[Partition] | None = None,
        timeout_ms: float | None = None,
    ) -> CommitResult:
        """Commit what was processed: by default everything delivered.

        A record, a batch or a list of records covers the records before it in its partitions too. Partitions that
        belong to other members now, or may have since the call, are not committed, and neither are offsets that the
        coordinator refuses: both are outcomes, not exceptions, and logged. During a rebalance the call
        waits for its end. After a cancellation the offsets may be committed or not.

        Args:
            offsets: A record, a batch of :meth:`batches`, a list of records, or partitions with the offset to continue
                from, which is the last processed one plus one; None for all positions.
            timeout_ms: By default ``default_api_timeout_ms``.

        Returns:
            The outcome of each partition. :meth:`CommitResult.check` raises if there is one that was not committed.

        Raises:
            ConfigurationError: There is no group, a topic of a dict is not subscribed, or ``offsets`` cannot be
                committed; the text says what to pass.
            GroupError: Partitions of :meth:`assign` are committed to a group that has members.
            FencedError: Another consumer has this one's ``group_instance_id``.
            DeadlineError: It was not confirmed in time.
        """
        self._group()
        # As for positions(): whoever calls commit() has processed what it has.
        chosen = self._assignment.committable(processed=False) if offsets is None else to_commit(offsets)
        if isinstance(offsets, Mapping):
            self._check_subscribed(chosen)
        result = await self._engine.commit(chosen, self._seconds(timeout_ms))
        # Lost partitions share one error, which names them.
        for text in dict.fromkeys(str(result.outcomes[each].error) for each in (*result.refused, *result.lost)):
            log.warning("consumer: commit: %s", text)
        return result

    def _check_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise for a topic that the group never assigns to this consumer, such as a misspelt one."""
        subscription = self._engine.subscription
        if not subscription.by_topic:
            return
        for partition in partitions:
            topic = partition.topic
            known = subscription.matching([topic]) if subscription.pattern is not None else subscription.topics
            if topic not in known and partition not in self._assignment.cursors:
                raise ConfigurationError(
                    f"commit() of {partition}: topic {topic!r} is not subscribed, so that the group does not assign it "
                    "to this consumer"
                )

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
        assert self._engine.member is not None, "there is a group"
        found, failures = await self._engine.member.committed(chosen, self._seconds(timeout_ms))
        for failure in failures.values():
            raise failure
        return found

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
            ConfigurationError: There is no group, ``enable_auto_commit`` is on, or a partition of the records is not
                assigned.
        """
        self._group()
        if self._engine.config.enable_auto_commit:
            raise ConfigurationError(
                "progress() needs enable_auto_commit=False: else the offsets are committed whether or not the "
                "transaction is"
            )
        return Progress(records, self._assignment, self.group_metadata)
