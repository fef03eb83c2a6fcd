"""The share consumer: reads records as from a queue, together with the other members of a share group (KIP-932).

The parts, and who writes what. Everything runs in one event loop, so there are no locks; each piece of state has one
writer instead:

* :class:`~aiokproto.group.share_member.ShareMember` is a member of the group, and reports which partitions to read.
* :class:`~aiokproto.share.fetcher.ShareFetcher` places each partition at its leader, and has a
  :class:`~aiokproto.share.broker_session.BrokerSession` per broker, with one request in flight and a share session.
* :class:`~aiokproto.share.buffer.ShareBuffer` has the records that are acquired and not delivered. The sessions append,
  and :class:`~aiokproto.share.reader.ShareReader` opens and delivers them when the application requests records.
* :class:`~aiokproto.share.ledger.AcquiredPartition` has the records that the application is processing, and the
  acknowledgements that are due. The application's calls write it, and the session of its broker.
* :class:`~aiokproto.share.outcomes.Outcomes` has what became of acknowledgements.
* ``report`` reads statistics and health from all of them.
* :class:`~aiokproto.share.engine.ShareEngine` owns the tasks and joins the parts.

A record's right to be delivered, and to be acknowledged, is its :class:`~aiokproto.share.ledger.AcquisitionLock`. It
ends with its deadline, with the share session, and with the leadership of the broker that granted it.

What can never happen: a record is delivered after its lock has ended on this side, which is before it ends on the
broker; an acknowledgement is sent in another session than the one that acquired the record; an acknowledgement has no
outcome; a record is acquired that the application has not requested.
"""

from __future__ import annotations

from aiokproto.share.acknowledgement import Acknowledgement, AcknowledgeOutcome
from aiokproto.share.batch import ShareBatch
from aiokproto.share.consumer import ShareConsumer
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
