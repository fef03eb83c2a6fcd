"""Drains ready batches to the brokers' sinks, and expires old ones (Java's ``Sender``).

The sender is a callback rather than a task. The timer runs :meth:`Sender._run_once` after a call has filled a batch,
when a linger or a backoff ends, and after each response. Responses are handled in the event loop iteration that reads
them. A sender task would need one more iteration in both cases. Tasks are used for what can take long: following the
metadata, acquiring a producer id, and connecting.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine
from typing import Any

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.produce import ProduceRequest, ProduceResponse
from aiokproto.errors import ClientClosedError, KafkaError, UnsupportedVersionError
from aiokproto.net.timer import Timer
from aiokproto.producer.accumulator import Drained
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.buffer import Buffer
from aiokproto.producer.config import ProducerConfig
from aiokproto.producer.producer_id import ProducerIdManager, ProducerIds
from aiokproto.producer.responses import ProduceResponseHandler
from aiokproto.producer.sink import Result, Sinks
from aiokproto.producer.transaction_manager import TransactionManager
from aiokproto.runtime import create_task
from aiokproto.texts import repr_of

log = logging.getLogger("aiokproto.producer")

LEADERLESS_PAUSE = 0.1


class Sender:
    """Sends batches between :meth:`start` and :meth:`stop`.

    Attributes:
        timer: Schedule it when there is something to send.
        unsent: How many records failed when the sender failed; 0 otherwise.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        buffer: Buffer,
        settings: ProducerConfig,
        request_timeout: float,
        transactions: TransactionManager | None = None,
    ) -> None:
        """Create a sender in the running loop.

        Args:
            cluster: Sends the requests.
            buffer: Contains the batches. The sender closes it if the sender fails.
            settings: The producer's options.
            request_timeout: Maximum wait for a response (s).
            transactions: The transactional id's manager, if any.
        """
        self.timer = Timer(self._run_once)
        self.unsent = 0
        self._cluster = cluster
        self._buffer = buffer
        self._accumulator = accumulator = buffer.accumulator
        self._settings = settings
        # Every batch expires after its delivery timeout. A request that outlives its batches would block the sink.
        self._request_timeout = min(request_timeout, settings.limits.delivery_timeout)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False
        self._sinks = Sinks(cluster, settings, self._request_timeout, self, transactions)
        self._transactions = transactions
        if transactions is not None:
            transactions.sender = self
        self._id_manager = ProducerIdManager(cluster, buffer, self._request_timeout)
        self._producer_ids: ProducerIds = self._id_manager if transactions is None else transactions.id
        accumulator.producer_ids = self._producer_ids
        # True while a task is acquiring the id. It ensures that one request is sent, however many rounds run in the
        # meantime.
        self._acquiring_id = False
        self._responses = ProduceResponseHandler(cluster, accumulator, self._producer_ids, transactions)

    def start(self) -> None:
        """Start sending."""
        self.spawn(self._follow_metadata())

    async def stop(self) -> None:
        """Stop sending, and wait until all tasks have ended."""
        self._end()
        # Ignore their errors: either _task_ended has reported them, or they come from the cancellation.
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end(self) -> None:
        # Set this first: callbacks that run while the rest ends must do nothing.
        self._ended = True
        self.timer.cancel()
        self._sinks.close()
        for task in self._tasks:
            task.cancel()

    def fail(self, cause: BaseException) -> None:
        """End the sender, and with it the producer, because of an error. A second call does nothing."""
        if self._ended:
            return
        self._end()
        level = logging.DEBUG if self._cluster.has_logged(cause) else logging.ERROR
        log.log(level, "the producer has failed: %s", cause, exc_info=None if isinstance(cause, KafkaError) else cause)
        if isinstance(cause, KafkaError):
            error = cause
        else:
            error = ClientClosedError(f"the producer has failed: {repr_of(cause)}")
            error.__cause__ = cause
        self._buffer.close(error)
        # Producer.__del__ reports this number, so count before the batches fail.
        self.unsent = sum(batch.count for batch in self._accumulator.incomplete)
        # The buffer is closed by now: a waiting call must not append into the memory that this frees.
        self._accumulator.fail_all(lambda _: error)

    # -- rounds

    def _run_once(self, now: float) -> None:
        """Expire old batches, then send all batches that can be sent (Java's ``Sender.runOnce``)."""
        if self._ended:
            return
        try:
            # Expire batches first, so this round doesn't send a batch that has expired.
            # guard: batches expire -> []
            expired = self._accumulator.expire(now)
            for batch in expired:
                self._producer_ids.discard_for(self._accumulator.queue(batch))
            if expired:
                self._buffer.memory_freed()
            self._send_ready(now)
        except Exception as error:  # noqa: BLE001 - any error ends the producer
            self.fail(error)

    def _send_ready(self, now: float) -> None:
        accumulator = self._accumulator
        # A drain takes at most one batch per partition, so repeat it. Check the id again each time: a send() that fails
        # can discard it.
        while not self._settings.idempotent or self._producer_ids.current is not None:
            drained = accumulator.drain(now, self._sinks)
            if drained.leaderless:
                topics = {partition.topic: None for partition in drained.leaderless}
                self._cluster.metadata.invalidate(f"{drained.leaderless[0]} has no leader", topics)
                # If the metadata update finds a leader, it wakes the sender. Otherwise the request is repeated after
                # this pause.
                self.timer.call_at(now + LEADERLESS_PAUSE)
            if drained.requests:
                self._assign_sequences(drained)
                for node, batches in drained.requests.items():
                    # send() is synchronous, so the order of these calls is the order on the wire.
                    self._sinks.get(node).send(batches)
            # The drain calls may_send(), which notes the partitions that have to be added.
            if self._transactions is not None and self._transactions.has_partitions_to_add:
                self.spawn(self._add_partitions(self._transactions))
            # Nothing could be taken. The remaining ready batches wait for capacity, a backoff or a leader, and each of
            # these events runs this method again.
            if not drained.requests or not accumulator.has_ready:
                if drained.wake_at < math.inf:
                    self.timer.call_at(drained.wake_at)
                return
        # Acquire the id only when there's something to send: a producer that never sends doesn't need the
        # IdempotentWrite permission.
        if not self._acquiring_id and accumulator.has_due(now):
            self._acquiring_id = True
            self.spawn(self._acquire_producer_id())
        # While a producer id is being acquired, don't use the end of a linger as the deadline: if it's in the past, the
        # timer would run in every iteration of the loop.
        # guard: waiting for a producer id sets no timer in the past -> accumulator.next_deadline()
        deadline = accumulator.next_expiry() if self._acquiring_id else accumulator.next_deadline()
        if deadline < math.inf:
            self.timer.call_at(deadline)

    def _assign_sequences(self, drained: Drained) -> None:
        """Assign all sequence numbers before the first request is sent: its failure can discard the producer id."""
        if self._producer_ids.current is not None:
            for batches in drained.requests.values():
                for batch in batches:
                    self._producer_ids.assign(self._accumulator.queue(batch), batch)

    async def _add_partitions(self, transactions: TransactionManager) -> None:
        # This needs a task because it's a request. In the meantime the partitions stay ready, and other partitions are
        # drained.
        await transactions.add_partitions()
        self.timer.call_soon()

    # -- what the sinks report

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task. An error, or its cancellation before :meth:`stop`, ends the sender."""
        task = create_task(coroutine, name=f"aiokproto {getattr(coroutine, '__qualname__', 'producer')}")
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # stop() cancels tasks too. In that case fail() does nothing, because the sender has ended.
        if task.cancelled():
            # guard: a cancelled task ends the producer
            self.fail(ClientClosedError(f"the producer has failed: its task {task.get_name()!r} was cancelled"))
        elif (error := task.exception()) is not None:
            self.fail(error)

    def request_completed(
        self, node: int, request: ProduceRequest, batches: list[ProducerBatch], result: Result
    ) -> None:
        """Apply a request's result to its batches. A sink calls this once for every request that it has started."""
        # If the response came after the end, the producer has already failed its batches.
        if self._ended:
            return
        if isinstance(result, ProduceResponse):
            self._accumulator.observer.throttle.add(result.throttle_time_ms / 1000)
        try:
            self._responses.handle(node, request, batches, result)
        except Exception as error:  # noqa: BLE001 - as in a round
            self.fail(error)
            return
        self._batches_done()

    def compression_failed(self, batch: ProducerBatch, error: Exception) -> None:
        """Fail a batch that can't be compressed, or can't be converted to the format of its leader. It's not sent."""
        if not self._ended:
            # Don't classify or retry the error: the same bytes would fail again.
            failure: KafkaError = KafkaError(f"{batch} cannot be compressed: {error!r}")
            failure.__cause__ = error
            if isinstance(error, UnsupportedVersionError):
                failure = error
            self._responses.fail(batch, failure)
            self._batches_done()

    def capacity_freed(self) -> None:
        """Run again: a sink has capacity without a result, after a backoff or because a request's batches expired."""
        self.timer.call_soon()

    def _batches_done(self) -> None:
        self._buffer.memory_freed()
        # The timer runs after the callbacks of waiting tasks, so records that they post next are sent in the same
        # iteration of the loop.
        self.timer.call_soon()

    # -- metadata

    async def _follow_metadata(self) -> None:
        while True:
            snapshot = self._cluster.snapshot
            # Update the buffer before the sender runs, so the sender doesn't drain with the leaders of the old
            # snapshot.
            self._buffer.update_topics(snapshot)
            for node in self._sinks.forget_all_but(snapshot.brokers):
                self._accumulator.sticky.forget(node)
            self.timer.call_soon()
            # An update between the read above and this wait isn't missed: the wait compares the generation first.
            await self._cluster.metadata.wait_for_update(snapshot.generation)

    async def _acquire_producer_id(self) -> None:
        """Acquire a producer id. Until then nothing is sent, but batches can expire."""
        await self._id_manager.acquire()
        self._acquiring_id = False
        self.timer.call_soon()
