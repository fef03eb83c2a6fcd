"""Threads that compress batches."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from aiokproto.producer.batch import ProducerBatch

MIN_BYTES = 32 * 1024
"""Batches of at least this many bytes are compressed in a thread. For smaller ones, changing threads takes as long."""
MAX_THREADS = 4


def needs_thread(batch: ProducerBatch) -> bool:
    """Whether sealing a batch takes so long that it is done in a thread."""
    return batch.compresses and batch.size >= MIN_BYTES


class CompressionPool:
    """A few threads of the producer's own: the loop's default executor may be full of the application's work."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._running: set[asyncio.Future[bytearray]] = set()

    def submit(self, batch: ProducerBatch) -> asyncio.Future[bytearray]:
        """Have a batch sealed; must be called in the running loop."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="aiokproto-compression")
        future = asyncio.get_running_loop().run_in_executor(self._threads, batch.seal)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def close(self) -> None:
        """End the threads. One that is compressing ends when it is done, and is not waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=not self._running, cancel_futures=True)
