"""Selection of the batches of a Fetch response that users see (``isolation.level``, KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.records.batch import RecordBatch
from aiokproto.records.control import ControlType, batch_control_type


def visible(
    batches: Iterable[RecordBatch], aborted: Sequence[AbortedTransaction] = (), *, control: bool = False
) -> Iterator[RecordBatch]:
    """Yield the batches with records for users.

    An aborted transaction spans from its first offset to its abort marker; the producer's transactional batches in
    between are skipped, and so are batches that compaction has emptied. Message sets of magic 0 and 1 are never empty,
    and counting their messages would decompress them.

    Args:
        batches: The batches of one partition in a response, in order.
        aborted: The partition's aborted transactions in the same response; empty for ``read_uncommitted``.
        control: Whether to yield control batches too.

    Raises:
        CorruptRecordError: A control batch is damaged. The batches before it have been yielded.
    """
    # By first offset, so that one pass suffices, whatever order the broker sends.
    upcoming = deque(sorted(aborted, key=lambda one: one.first_offset))
    aborting: set[int] = set()
    for batch in batches:
        # last_offset and not base_offset, which in a compressed set of magic 1 would take a decompression.
        while upcoming and upcoming[0].first_offset <= batch.last_offset:
            aborting.add(upcoming.popleft().producer_id)
        if batch.is_control:
            # The type is inside the batch, so it is read only where it matters.
            if batch.producer_id in aborting and batch_control_type(batch) is ControlType.ABORT:
                aborting.discard(batch.producer_id)
            if control and batch.count:
                yield batch
        elif (batch.magic < 2 or batch.count) and not (batch.is_transactional and batch.producer_id in aborting):
            yield batch
