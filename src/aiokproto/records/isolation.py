"""Which batches of a Fetch response are for users (``isolation.level``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.records.batch import RecordBatch
from aiokproto.records.control import ControlType, batch_control_type


def visible(batches: Iterable[RecordBatch], aborted: Sequence[AbortedTransaction] = ()) -> Iterator[RecordBatch]:
    """The batches that hold records for users.

    A producer's aborted transaction reaches from its first offset to its abort marker; between those, all its
    transactional batches are left out. Control batches always are, and what compaction has emptied; a message set of
    an old format never is empty, and to count it would be to decompress it.

    Args:
        batches: Those of one partition in a response, in order.
        aborted: The response's list of aborted transactions, which covers all of the response; empty to read what is
            not committed as well.

    Raises:
        CorruptRecordError: A control batch is damaged. The batches before it have been handed out by then.
    """
    upcoming = deque(sorted(aborted, key=lambda one: one.first_offset))
    aborting: set[int] = set()
    for batch in batches:
        while upcoming and upcoming[0].first_offset <= batch.last_offset:
            aborting.add(upcoming.popleft().producer_id)
        if batch.is_control:
            if batch.producer_id in aborting and batch_control_type(batch) is ControlType.ABORT:
                aborting.discard(batch.producer_id)
        elif (batch.magic < 2 or batch.count) and not (batch.is_transactional and batch.producer_id in aborting):
            yield batch
