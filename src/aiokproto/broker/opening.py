"""Opens large batches in a thread, so the event loop doesn't stall, and finds offsets by timestamp."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from aiokproto.broker.log import Log
from aiokproto.broker.log.stored import first_at_time, is_quick
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.types import OffsetAndTimestamp

T = TypeVar("T")


class OpeningThread:
    """One thread for all nodes. It does work in order, so only one opened batch is in memory at a time.

    The loop's default executor wouldn't do: it has many threads, and the application may be keeping them busy.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._working = self._stopped = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a work item. Cancelling the future doesn't stop work that has started.

        Raises:
            RuntimeError: The thread has been stopped.
        """
        if self._stopped:
            raise RuntimeError("the thread that opens batches was stopped")
        # Create the thread for the first large batch. Most clusters never need it.
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="aiokproto-broker")
        return asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def _do(self, work: Callable[[], T]) -> T:
        self._working = True
        try:
            return work()
        finally:
            self._working = False

    def stop(self) -> None:
        """Stop accepting work, and drop queued work. Nothing can interrupt work in progress, so it continues."""
        self._stopped = True
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def ended(self) -> None:
        """Wait until the thread has ended, after :meth:`stop`."""
        if self._thread is None:
            return
        if self._working:
            # This takes as long as a large batch, and the event loop must keep running.
            await asyncio.to_thread(self._thread.shutdown)
        else:
            self._thread.shutdown()


async def offset_at_time(log: Log, timestamp: int, thread: OpeningThread) -> OffsetAndTimestamp | None:
    """Return the first record whose timestamp (ms) isn't less than ``timestamp``, or None.

    Batches that aren't quick to read are opened in the thread. The log may change in the meantime, so each step looks
    at it again. Cancelling has no side effects.

    Raises:
        CorruptRecordError, UnsupportedCompressionError: A batch can't be read.
        BrokerError: KAFKA_STORAGE_ERROR: the log was deleted in the meantime.
    """
    offset = log.start_offset
    try:
        # A batch header contains only the greatest timestamp. The record with that timestamp may be before the start of
        # the log. If so, continue with the next batch.
        while (batch := log.batch_at_time(timestamp, offset)) is not None:
            search = partial(first_at_time, batch, timestamp, offset)
            found = search() if is_quick(batch) else await thread.run(search)
            if found is not None:
                return found._replace(leader_epoch=log.epoch_of(found.offset))
            offset = batch.next_offset
    except FileNotFoundError:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    return None
