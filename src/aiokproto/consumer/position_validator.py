"""Truncation detection (KIP-320): whether the leader's log contains the fetched records, and what to do if it doesn't.

Before a partition is fetched in a leader epoch, its position is validated with OffsetForLeaderEpoch: at the start, if
its leader epoch was committed with it, and after every election. After that, fetches include the leader epoch in which
they're valid, so a leader of another epoch rejects them. They also include the epoch of the last fetched batch, so a
leader whose log changed within its epoch reports that (Fetch v12+). Positions without a leader epoch aren't validated.
They come from the application, from clients that don't commit leader epochs, or from brokers before 2.1.

If the leader's log diverges after the position, no delivered record is lost, and buffered records are dropped and
fetched again. If it diverges before the position, some delivered records are no longer in the log. In that case the
position moves to the divergence, and the move is reported (:meth:`Assignment.reset_happened`); with
``auto_offset_reset="none"``, the read raises :class:`~aiokproto.errors.LogTruncationError`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.epochs import AskOlder, EpochEnd
from aiokproto.consumer.lookups import Lookups
from aiokproto.consumer.position_resolver import PositionResolver
from aiokproto.consumer.start_lookup import Lookup
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify

log = logging.getLogger("aiokproto.consumer")

_SITUATION = Situation(OffsetForLeaderEpochRequest.api_key)

_FOR_CONSUMERS = 3
"""The first version that consumers may send. Earlier versions need the permissions of a broker."""

_CONSUMER = -1
"""The replica id for consumers."""

MAX_OLDER_LEADERS = 5
"""How many times newer metadata is requested if the leader's epoch is older than the position's. This happens when a
broker with old metadata responds. It persists only if the position belongs to a topic that was deleted and created
again."""


class Validation(Lookup):
    """The validation of one position.

    Attributes:
        version: The version of the cursor being validated.
        asked: The epoch to ask the leader for.
        older_leaders: How many times the leader's epoch was older than the requested one.
    """

    __slots__ = ("asked", "older_leaders", "version")

    def __init__(self, version: object, asked: int) -> None:
        super().__init__()
        self.version = version
        self.asked = asked
        self.older_leaders = 0


class PositionValidator(Lookups[Validation]):
    """Validates positions, and decides what to do about invalid ones."""

    _what = "validate"

    def __init__(self, cluster: ClusterClient, assignment: Assignment, resolver: PositionResolver) -> None:
        """Create a validator; :meth:`run` does the work. The ``resolver`` moves positions that are no longer in the
        log."""
        super().__init__(cluster)
        self._assignment = assignment
        self._resolver = resolver

    def is_valid(self, cursor: Cursor) -> bool:
        """Return whether a partition can be fetched in the current leader epoch. If it cannot, start validating it."""
        fetch, epoch = cursor.fetch, self._cluster.snapshot.leader_epoch(*cursor.partition)
        # The epoch is unknown if the cluster has no leader epochs (before 2.1), or if the partition isn't in the
        # metadata.
        if epoch < 0 or epoch == fetch.leader_epoch:
            self.waiting.pop(cursor, None)
            return True
        if fetch.epochs.last < 0:
            # Nothing has been fetched yet that could be compared. All records fetched after this come from this
            # leader's log.
            fetch.leader_epoch = epoch
            return True
        # If there is no leader, the fetcher looks for one first.
        if self._cluster.snapshot.leader(*cursor.partition) is not None:
            self._validate(cursor, fetch.epochs.last)
            return False
        return True

    def is_checking(self, cursor: Cursor) -> bool:
        """Return whether the position is being validated."""
        return cursor in self.waiting

    def failure(self, cursor: Cursor) -> str:
        """Return why the position isn't validated yet."""
        waiting = self.waiting.get(cursor)
        return waiting.failure if waiting is not None else ""

    def changed(self, cursors: Iterable[Cursor]) -> None:
        """Drop validations of positions that are no longer current. The fetcher starts new validations."""
        for cursor in cursors:
            waiting = self.waiting.get(cursor)
            if waiting is not None and not self._is_current(cursor, waiting):
                del self.waiting[cursor]

    def _validate(self, cursor: Cursor, asked: int) -> None:
        waiting = self.waiting.get(cursor)
        if waiting is None or not self._is_current(cursor, waiting):
            self.waiting[cursor] = Validation(cursor.version, asked)
            self._wake.set()

    def _is_current(self, cursor: Cursor, validation: Validation) -> bool:
        return (
            cursor.version == validation.version
            and cursor.error is None
            and self._assignment.cursors.get(cursor.partition) is cursor
        )

    def found(self, cursor: Cursor, asked: int, end: EpochEnd, leader_epoch: int) -> None:
        """Decide what to do, given the end of an epoch in the leader's log.

        Args:
            cursor: The partition.
            asked: The epoch that was requested, in a separate request or with a Fetch.
            end: The leader's response.
            leader_epoch: The leader's epoch when it responded.
        """
        fetch = cursor.fetch
        assert fetch.offset is not None, "a position is validated"
        if end.epoch < 0 or end.offset < 0:
            self.waiting.pop(cursor, None)
            self._resolver.truncated(cursor, None, -1)
            return
        agreed = fetch.epochs.agreed(asked, end, fetch.offset)
        if isinstance(agreed, AskOlder):
            waiting = self.waiting[cursor] = Validation(cursor.version, agreed.epoch)
            waiting.failure = f"the leader's log has no epoch {asked}"
            self._wake.set()
            # Don't fetch until the divergence is known.
            fetch.leader_epoch = -1
            self._assignment.validated(cursor)
            return
        self.waiting.pop(cursor, None)
        position = cursor.position
        assert position is not None, "a position is validated"
        fetch.leader_epoch = leader_epoch
        if agreed >= fetch.offset:
            self._assignment.validated(cursor)
        elif agreed >= position:
            log.info("%s: the log was truncated to offset %d, behind the position", cursor.partition, agreed)
            self._assignment.rewind(cursor, position, end.epoch)
        else:
            self._resolver.truncated(cursor, agreed, end.epoch)

    # Work

    async def _ask(self, source: int | None, lookups: Mapping[Cursor, Validation]) -> bool:
        if source is None:
            self._cluster.metadata.invalidate("positions have to be validated, and the partitions have no leader")
            return True
        snapshot = self._cluster.snapshot
        epochs = {cursor: snapshot.leader_epoch(*cursor.partition) for cursor in lookups}
        topics: dict[str, OffsetForLeaderTopic] = {}
        for cursor, validation in lookups.items():
            name, number = cursor.partition
            topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=number, current_leader_epoch=epochs[cursor], leader_epoch=validation.asked
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        try:
            if await self._cluster.version(OffsetForLeaderEpochRequest, source) < _FOR_CONSUMERS:
                return self._accept(lookups, epochs)
            response = await self._cluster.send(request, source)
        except KafkaError as error:
            return self._failed(error, lookups, epochs)
        again = False
        found = {(topic.topic, entry.partition): entry for topic in response.topics for entry in topic.partitions}
        for cursor, validation in lookups.items():
            if self.waiting.get(cursor) is not validation or not self._is_current(cursor, validation):
                continue
            entry = found[cursor.partition]
            if entry.error_code:
                refused = error_for(
                    entry.error_code,
                    f"OffsetForLeaderEpoch of {cursor.partition} from broker {source}",
                    None,
                    self._cluster.asked(OffsetForLeaderEpochRequest, cursor.partition.topic),
                )
                again |= self._failed(refused, {cursor: validation}, epochs)
            elif entry.leader_epoch < 0 and self._is_older(validation, epochs[cursor]):
                self._cluster.metadata.invalidate(f"the leader of {cursor.partition} is older than its position")
                validation.failure = "the metadata is older than the position"
                again = True
            elif entry.leader_epoch < 0 and validation.asked <= epochs[cursor]:
                # This isn't a Kafka broker: Kafka's leaders know where each earlier epoch has ended. This broker
                # doesn't store epochs, or doesn't know its own until it writes (kfake), so the response says nothing
                # about the position. Java's consumer resets the position, and so reads everything again.
                self._accept({cursor: validation}, epochs)
            else:
                end = EpochEnd(entry.leader_epoch, entry.end_offset)
                self.found(cursor, validation.asked, end, epochs[cursor])
        return again

    def _is_older(self, validation: Validation, leader_epoch: int) -> bool:
        """Return whether a leader of this epoch cannot know the position's epoch. If so, newer metadata is needed."""
        if validation.asked <= leader_epoch:
            return False
        validation.older_leaders += 1
        return validation.older_leaders <= MAX_OLDER_LEADERS

    def _failed(self, error: KafkaError, lookups: Mapping[Cursor, Validation], epochs: Mapping[Cursor, int]) -> bool:
        """Handle a failure. Return whether to retry."""
        action = classify(error, _SITUATION)
        if action is Action.STOP:
            raise error
        if action is Action.ACCEPT:
            return self._accept(lookups, epochs)
        if action is Action.REFRESH_METADATA:
            self._cluster.metadata.invalidate(str(error))
        for cursor, validation in lookups.items():
            validation.failure = str(error)
            if action is Action.FAIL and self._is_current(cursor, validation):
                self.waiting.pop(cursor, None)
                self._assignment.fail(cursor, error)
        return action is not Action.FAIL

    def _accept(self, lookups: Mapping[Cursor, Validation], epochs: Mapping[Cursor, int]) -> bool:
        """Accept positions that cannot be validated."""
        for cursor, validation in lookups.items():
            if self.waiting.get(cursor) is validation and self._is_current(cursor, validation):
                del self.waiting[cursor]
                cursor.fetch.leader_epoch = epochs[cursor]
                self._assignment.validated(cursor)
        return False
