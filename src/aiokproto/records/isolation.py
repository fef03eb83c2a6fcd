"""Select the batches of a Fetch response that are visible to users (``isolation.level``, KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.errors import CorruptRecordError
from aiokproto.records.batch import RecordBatch
from aiokproto.records.control import ControlType, batch_control_type


def visible(
    batches: Iterable[RecordBatch],
    aborted: Sequence[AbortedTransaction] = (),
    *,
    control: bool = False,
    check_crc: bool = False,
) -> Iterator[RecordBatch]:
    """Yield the batches that contain records for users.

    An aborted transaction spans from its first offset to its abort marker. The producer's transactional batches in
    between are skipped, and so are batches that compaction has emptied. Message sets of magic 0 and 1 are never empty,
    and counting their messages would require decompressing them.

    Args:
        batches: The batches of one partition in a response, in order.
        aborted: The partition's aborted transactions in the same response; empty for ``read_uncommitted``.
        control: Whether to yield control batches too.
        check_crc: Whether to verify the checksums of control batches, and of batches that will be skipped. If a
            checksum doesn't match, the batch is yielded like any other damaged batch, so the reader detects it: a
            single flipped bit turns a batch with records into a control batch, or into an empty batch. Markers whose
            checksum is 0 aren't checked.

    Raises:
        CorruptRecordError: A control batch is damaged. The batches before it have been yielded.
    """
    # Sort them by first offset, so one pass is enough, whatever order the broker sends.
    upcoming = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
    aborting: set[int] = set()
    for batch in batches:
        # base_offset would require decompressing a compressed set of magic 1; last_offset doesn't.
        while upcoming and upcoming[0].first_offset <= batch.last_offset:
            aborting.add(upcoming.popleft().producer_id)
        hidden = batch.is_control or (batch.is_transactional and batch.producer_id in aborting)
        if not hidden and (batch.magic < 2 or batch.count):
            yield batch
            continue
        # librdkafka's mock cluster writes its markers without a checksum.
        if check_crc and not (batch.is_control and not batch.crc) and not _intact(batch):
            yield batch
            continue
        # Compaction may have removed the marker but kept the batch, for the producer's last sequence number.
        if batch.is_control and batch.count:
            # The type is inside the batch, so read it only where it matters.
            if batch.producer_id in aborting and batch_control_type(batch) is ControlType.ABORT:
                aborting.discard(batch.producer_id)
            if control:
                yield batch


def _intact(batch: RecordBatch) -> bool:
    try:
        batch.validate()
    except CorruptRecordError:
        return False
    return True
