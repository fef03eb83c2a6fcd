"""The offsets that a consumer commits to its group, and its identity in the group."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from aiokproto.application.foreign_calls import foreign_commit, named_after
from aiokproto.application.gates import ASK
from aiokproto.consumer.commit_result import CommitResult, Committable, to_commit
from aiokproto.consumer.part import ConsumerPart
from aiokproto.consumer.progress import Delivered, Progress
from aiokproto.errors import CommitError, ConfigurationError
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
        belong to other members now, or may have since the records were delivered, are not committed, and neither are
        offsets that the coordinator refuses: both are outcomes, not exceptions, and logged. During a rebalance the call
        waits for its end. After a cancellation the offsets may be committed or not.

        A record, or a batch, is lost once the group has taken its partition away, also if that is back: others may have
        processed it. A dict and None do not say which delivery they mean. So if the group takes away partitions
        of which delivered records are not committed, these are lost for such calls, until the application knows, by
        ``on_lost`` or by an outcome, and has requested the next records after that.

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
        lost = self._lost(offsets, chosen)
        # In the same turn of the event loop as the look at what is owned.
        kept = {partition: position for partition, position in chosen.items() if partition not in lost}
        result = await self._engine.commit(kept, self._seconds(timeout_ms))
        if lost:
            names = ", ".join(map(str, sorted(lost)))
            why = f"{names} not committed: taken away since the records were delivered; they are processed again"
            result = result.and_lost(lost, CommitError(f"{self._in_group()}: {why}"))
            self._assignment.report_lost(lost)
        # Lost partitions share one error, which names them.
        for text in dict.fromkeys(str(result.outcomes[each].error) for each in (*result.refused, *result.lost)):
            log.warning("consumer: commit: %s", text)
        return result

    def _lost(
        self, what: Committable[Partition] | None, chosen: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the partitions that may have had other owners since what is to be committed was delivered."""
        if not self._managed:
            return {}
        losses = self._assignment.losses.lost
        if what is None:
            # guard: a commit of everything leaves out what was lost -> {}
            return losses
        if isinstance(what, Mapping):
            # guard: a commit of a dict leaves out what was lost -> {}
            return {partition: position for partition, position in chosen.items() if partition in losses}
        # guard: a commit of records leaves out what was lost -> set()
        gone = {
            TopicPartition(each.topic, each.partition)
            for each in (what if isinstance(what, list) else [what])
            if self._assignment.delivered_by(each) is None
        }
        return {partition: chosen[partition] for partition in gone}

    @property
    def _managed(self) -> bool:
        """Whether the group assigns the partitions. Nobody takes away partitions that :meth:`assign` has chosen."""
        return self._engine.subscription.partitions is None

    def _in_group(self) -> str:
        assert self._engine.config.group is not None, "there is a group"
        return f"group {self._engine.config.group.group_id!r}"

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
            CommitError: It is in no generation of the group: its partitions may belong to other members. Or the group
                has taken away partitions of which delivered records were not committed; until the next records are
                requested, a new identity would commit what the former one has read.
        """
        return self._everything().group_metadata()

    def _identity(self) -> GroupMetadata:
        self._admit(ASK)
        self._group()
        member = self._engine.member
        assert member is not None, "there is a group"
        # Without a generation the coordinator checks nothing, which is right only for partitions that the group does
        # not assign.
        # guard: a member without a generation has no identity
        if self._managed and member.removed:
            raise CommitError(f"the consumer is in no generation of its group: {member.state}")
        return member.metadata

    def progress(self, records: Iterable[Record[Any, Any]]) -> Progress:
        """Return how far ``records`` have brought this consumer. No I/O.

        For transactions: ``txn.send_offsets(progress)`` commits exactly these records, and ``progress.rewind()`` lets
        them come again after an abort. If the group has taken a partition of the records away since they were
        delivered, even if it is back, it is lost: the offsets cannot be sent.

        Raises:
            ConfigurationError: There is no group, or ``enable_auto_commit`` is on.
        """
        self._group()
        if self._engine.config.enable_auto_commit:
            raise ConfigurationError(
                "progress() needs enable_auto_commit=False: else the offsets are committed whether or not the "
                "transaction is"
            )
        return Progress(records, self._assignment, self._identity, self._admit, managed=self._managed)

    def _everything(self) -> Delivered:
        """Return everything delivered, for a transaction that commits all positions."""
        self._group()
        assignment = self._assignment
        return Delivered(
            assignment,
            self._identity,
            dict(assignment.cursors),
            assignment.committable(processed=False),
            # guard: all positions are sent only while nothing was lost -> ()
            assignment.losses.offsets if self._managed else (),
            managed=self._managed,
        )
