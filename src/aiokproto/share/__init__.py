"""The share consumer: reads records as from a queue, together with the other members of a share group (KIP-932).

The parts, and who writes what. Everything runs in one event loop, so there are no locks; each piece of state has one
writer instead:

* :class:`~aiokproto.group.share_member.ShareMember` is a member of the group, and reports which partitions to read.
* :class:`~aiokproto.share.fetcher.ShareFetcher` places each partition at its leader, and has a
  :class:`~aiokproto.share.broker_session.BrokerSession` per broker, with one request in flight and a share session.
* :class:`~aiokproto.share.buffer.ShareBuffer` contains the records that are acquired but not delivered. The sessions
  append to it, and :class:`~aiokproto.share.reader.ShareReader` opens and delivers the records when the application
  requests them.
* :class:`~aiokproto.share.ledger.AcquiredPartition` contains the records that the application is processing, and the
  acknowledgements that are due. The application's calls and the broker's session write it.
* :class:`~aiokproto.share.outcomes.Outcomes` collects the outcomes of acknowledgements.
* ``report`` reads statistics and health from all of them.
* :class:`~aiokproto.share.engine.ShareEngine` owns the tasks and connects the parts.

A record can be delivered and acknowledged only while its :class:`~aiokproto.share.ledger.AcquisitionLock` is held. The
lock ends at its deadline, with the share session, or when the broker that granted it is no longer the leader.

Four things can never happen: a record is delivered after its lock has ended on this side, which is before it ends on
the broker; an acknowledgement is sent in a different session from the one that acquired the record; an acknowledgement
gets no outcome; a record is acquired without the application having requested records.
"""

from __future__ import annotations

from aiokproto.share.acknowledgement import Acknowledgement, AcknowledgeOutcome
from aiokproto.share.consumer import ShareBatch, ShareConsumer
from aiokproto.share.ledger import ShareRecord
from aiokproto.share.report import ShareConsumerStats, SharePartitionStats

__all__ = [
    "AcknowledgeOutcome",
    "Acknowledgement",
    "ShareBatch",
    "ShareConsumer",
    "ShareConsumerStats",
    "SharePartitionStats",
    "ShareRecord",
]
