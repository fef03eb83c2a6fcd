"""The consumer: reads records, alone or as a member of a group.

The parts, and who writes what. Everything runs in one event loop, so there are no locks; each piece of state has one
writer instead:

* :class:`~aiokproto.consumer.assignment.Assignment` is the table of assigned partitions, with one
  :class:`~aiokproto.consumer.cursor.Cursor` each. It decides which partition delivers next, and knows which records the
  application is processing.
* :class:`~aiokproto.consumer.position_resolver.PositionResolver` looks up start positions: the committed offset first,
  then the log, as ``auto_offset_reset`` says. It alone writes a cursor's ``lookup``.
* :class:`~aiokproto.consumer.position_validator.PositionValidator` checks after each election that the leader's log
  still contains what was fetched (KIP-320).
* :class:`~aiokproto.consumer.fetcher.Fetcher` decides which broker each partition is fetched from, and has a
  :class:`~aiokproto.consumer.broker_fetcher.BrokerFetcher` per broker, with one request in flight and a fetch session.
  They alone write a cursor's ``fetch``.
* :class:`~aiokproto.consumer.reader.Reader` decodes buffered batches when the application requests records. It alone
  takes from a cursor's ``buffer``.
* :class:`~aiokproto.consumer.deserializing.DeserializingReader` delivers records if there are deserializers, and
  :class:`~aiokproto.consumer.undecodable.Undecodable` decides what to do with records that cannot be decoded.
* :class:`~aiokproto.consumer.rebalancing.Rebalancing` carries out the group's decisions, and calls the application's
  callbacks.
* :class:`~aiokproto.consumer.engine.Engine` owns the tasks and connects the parts.
* :mod:`~aiokproto.consumer.running` calls the application's handler for each record, for applications that don't read
  the consumer themselves.

A fetch response becomes records in three steps: ``fetch_response`` cuts it into chunks of encoded batches (no
decompression, no checksum), ``reader`` opens one batch of one chunk (checksum, decompression, records), and
:class:`~aiokproto.consumer.delivery.RecordIterator` delivers the records one at a time, with no other code in between.

Three things can never happen: a record from before a seek is delivered after it (each seek changes the cursor's
version, and responses for another version are dropped); an offset is committed before the application has finished its
record; a record is delivered after the revocation callback of its partition has returned.
"""

from __future__ import annotations

from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.commit_result import CommitOutcome, CommitResult, CommitStatus
from aiokproto.consumer.consumer import Consumer
from aiokproto.consumer.cursor import LogState, PartitionState, PartitionStatus
from aiokproto.consumer.dead_letters import DeadLetterTopic
from aiokproto.consumer.offset_reset import OffsetReset
from aiokproto.consumer.progress import Progress
from aiokproto.consumer.report import ConsumerStats, PartitionStats
from aiokproto.consumer.running import (
    DeadLetters,
    PartitionProgress,
    PermanentError,
    Retry,
    RetryTopics,
    RunStats,
    RunStatus,
    RunSummary,
    TopicCounts,
)
from aiokproto.consumer.start_lookup import ResetReason

__all__ = [
    "CommitOutcome",
    "CommitResult",
    "CommitStatus",
    "Consumer",
    "ConsumerStats",
    "DeadLetterTopic",
    "DeadLetters",
    "FetchedBatch",
    "LogState",
    "OffsetReset",
    "PartitionProgress",
    "PartitionState",
    "PartitionStats",
    "PartitionStatus",
    "PermanentError",
    "Progress",
    "ResetReason",
    "Retry",
    "RetryTopics",
    "RunStats",
    "RunStatus",
    "RunSummary",
    "TopicCounts",
]
