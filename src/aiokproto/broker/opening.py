"""Opens large batches in a thread, so that the event loop does not stall, and searches opened batches for a time."""

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
    """One thread for all nodes: work is done in its order, and what one batch becomes is in memory at a time.

    Not the loop's default executor, which has many threads, and which the application may have filled.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._working = self._stopped = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do some work behind what was given before. Cancelling the future does not end work that has begun.

        Raises:
            RuntimeError: The thread was stopped.
        """
        if self._stopped:
            raise RuntimeError("the thread that opens batches was stopped")
        # With the first large batch: most clusters never need it.
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
        """Take no more work, and drop what waits. Work that is under way goes on: nothing can end it."""
        self._stopped = True
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def ended(self) -> None:
        """Wait for the end of the thread, after :meth:`stop`."""
        if self._thread is None:
            return
        if self._working:
            # For as long as a large batch takes: the event loop serves others.
            await asyncio.to_thread(self._thread.shutdown)
        else:
            self._thread.shutdown()


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
