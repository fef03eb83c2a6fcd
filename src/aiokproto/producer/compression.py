"""Threads that compress large batches, so that the event loop doesn't stall."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiokproto.producer.batch import ProducerBatch

MIN_BYTES = 32 * 1024
"""Batches of at least this many bytes are compressed in a thread; for smaller ones the hand-over costs as much."""
MAX_THREADS = 4


def needs_thread(batch: ProducerBatch) -> bool:
    """Whether a batch is large enough to be compressed in a thread."""
    return batch.compresses and batch.size >= MIN_BYTES


class CompressionPool:
    """The producer's compression threads. The application may have filled the loop's default executor, so it isn't
    used."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._running: set[asyncio.Future[bytearray]] = set()

    def submit(self, batch: ProducerBatch, magic: int) -> asyncio.Future[bytearray]:
        """Seal a batch in a thread, in the format ``magic``; call this in the running loop."""
        # The threads start with the first large batch, because most producers never need one.
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="aiokproto-compression")
        seal = batch.seal if magic == batch.magic else partial(batch.convert, magic)
        future = asyncio.get_running_loop().run_in_executor(self._threads, seal)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def close(self) -> None:
        """Stop the threads. A compression that is running isn't waited for."""
        if self._threads is not None:
            # Waiting for a running compression would block the event loop. If none is running, the threads end at once,
            # and no thread outlives the producer.
            self._threads.shutdown(wait=not self._running, cancel_futures=True)
