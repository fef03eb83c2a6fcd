"""Searches a log for a time. Only headers are indexed: the batch that has the record is opened."""

from __future__ import annotations

from functools import partial

from aiokproto.broker.log import Log
from aiokproto.broker.log.stored import first_at_time, is_quick
from aiokproto.broker.opening import OpeningThread
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.types import OffsetAndTimestamp


async def offset_at_time(log: Log, timestamp: int, thread: OpeningThread) -> OffsetAndTimestamp | None:
    """Return the first record whose timestamp (ms) is not less than ``timestamp``, or None.

    Batches that are not quick to read are opened in the thread. The log may change meanwhile: each step looks at it
    again. Cancelling it changes nothing.

    Raises:
        CorruptRecordError, UnsupportedCompressionError: A batch cannot be read.
        BrokerError: KAFKA_STORAGE_ERROR: the log was deleted meanwhile.
    """
    offset = log.start_offset
    try:
        # A header has only the greatest timestamp of its batch. That record may be before the start of the log; then
        # the search goes on behind the batch.
        while (batch := log.batch_at_time(timestamp, offset)) is not None:
            search = partial(first_at_time, batch, timestamp, offset)
            found = search() if is_quick(batch) else await thread.run(search)
            if found is not None:
                return found._replace(leader_epoch=log.epoch_of(found.offset))
            offset = batch.next_offset
    except FileNotFoundError:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    return None
