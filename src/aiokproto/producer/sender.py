"""Distributes what is ready to the sinks of the brokers, and ends what takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiokproto.cluster import ClusterClient, ClusterSnapshot
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.net.timer import Timer
from aiokproto.producer.accumulator import INFINITY, Accumulator, Drained
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.compression import CompressionPool
from aiokproto.producer.config import ProducerConfig
from aiokproto.producer.producer_id import ProducerIdManager
from aiokproto.producer.responses import ProduceResponseHandler
from aiokproto.producer.sink import Result, Sink

LEADERLESS_PAUSE = 0.1


class Sender:
    """Sends batches from :meth:`start` to :meth:`stop`.

    It is no task but a round, which the alarm calls: a round sends what can be sent, and an answer is handled as it is
    read, so neither waits for its turn of the loop. Tasks are only what may take long: following the cluster's
    metadata, asking for a producer id, connecting.

    Attributes:
        alarm: Set it when there is something to send.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        accumulator: Accumulator,
        settings: ProducerConfig,
        request_timeout: float,
        *,
        on_metadata: Callable[[ClusterSnapshot], None],
        on_settled: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Make a sender; must be called in the running loop.

        Args:
            cluster: The brokers.
            accumulator: What there is to send.
            settings: The producer's options.
            request_timeout: How long a broker may take to answer (s).
            on_metadata: Called with each new snapshot of the cluster metadata, before anything is sent by it.
            on_settled: Called after batches got their outcome, so that there is room again.
            on_failure: Called once, if an error that nobody has foreseen, or the cancellation of one of its tasks,
                ends it. What is in flight then has no outcome.
        """
        self.timer = Timer(self._round)
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._request_timeout = min(request_timeout, settings.limits.delivery_timeout)
        self._on_metadata = on_metadata
        self._on_settled = on_settled
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._sinks: dict[int, Sink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False
        self._compression = CompressionPool()
        self._producer_ids = ProducerIdManager(cluster, self._request_timeout)
        self._asking_for_id = False
        self._responses = ProduceResponseHandler(cluster, accumulator, self._producer_ids)

    def start(self) -> None:
        """Begin to send."""
        self.spawn(self._follow())

    async def stop(self) -> None:
        """Send no more, and wait until all tasks have ended."""
        self._end()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end(self) -> None:
        self._ended = True
        self.timer.cancel()
        self._compression.close()
        for sink in self._sinks.values():
            sink.close()
        for task in self._tasks:
            task.cancel()

    def _fail(self, error: BaseException) -> None:
        if not self._ended:
            self._end()
            self._on_failure(error)

    # -- rounds

    def _round(self, now: float) -> None:
        """Expire what is too old and send what can be sent."""
        if self._ended:
            return
        try:
            expired = self._accumulator.expire(now)
            for batch in expired:
                self._producer_ids.renew_for(self._accumulator.queue(batch))
            if expired:
                self._on_settled()
            self._send_ready(now)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the producer and not the loop's callback
            self._fail(error)

    def _send_ready(self, now: float) -> None:
        accumulator = self._accumulator
        while not self._settings.idempotent or self._producer_ids.current is not None:
            drained = accumulator.drain(now, lambda node: self._sink(node).has_room())
            if drained.leaderless:
                topics = {where.topic: None for where in drained.leaderless}
                self._cluster.invalidate(f"{drained.leaderless[0]} has no leader", topics)
                self.timer.call_at(now + LEADERLESS_PAUSE)
            if drained.requests:
                self._assign_sequences(drained)
                for node, batches in drained.requests.items():
                    self._sink(node).send(batches)
            if not drained.requests or not accumulator.has_ready:
                if drained.wake_at < INFINITY:
                    self.timer.call_at(drained.wake_at)
                return
        if accumulator.has_due(now) and not self._asking_for_id:
            self._asking_for_id = True
            self.spawn(self._ask_for_id())
        # What has lingered long enough waits for the id: for its sake the alarm would ring in every turn of the loop.
        deadline = accumulator.next_expiry() if self._asking_for_id else accumulator.next_deadline()
        if deadline < INFINITY:
            self.timer.call_at(deadline)

    def _assign_sequences(self, drained: Drained) -> None:
        """In one go with taking the batches: the answer to one of their requests may give the producer id up."""
        if self._producer_ids.current is not None:
            for batches in drained.requests.values():
                for batch in batches:
                    self._accumulator.queue(batch).assign(batch, self._producer_ids.current)

    def _sink(self, node: int) -> Sink:
        sink = self._sinks.get(node)
        if sink is None:
            sink = self._sinks[node] = Sink(
                node, self._cluster, self._settings, self._request_timeout, self._compression, self
            )
        return sink

    # -- what sinks report

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task; however it ends before :meth:`stop`, unless by itself, ends the sender."""
        task = self._loop.create_task(coroutine, name=f"aiokproto {getattr(coroutine, '__qualname__', 'producer')}")
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._fail(ClientClosedError(f"the producer has failed: its task {task.get_name()!r} was cancelled"))
        elif (error := task.exception()) is not None:
            self._fail(error)

    def responded(self, node: int, request: ProduceRequest, batches: list[ProducerBatch], result: Result) -> None:
        """A request has its result."""
        if self._ended:
            return
        try:
            self._responses.handle(node, request, batches, result)
        except Exception as error:  # noqa: BLE001 - as in a round
            self._fail(error)
            return
        self._settled()

    def compression_failed(self, batch: ProducerBatch, error: Exception) -> None:
        """A batch cannot be compressed."""
        if not self._ended:
            failure = KafkaError(f"{batch} cannot be compressed: {error!r}")
            failure.__cause__ = error
            self._responses.fail(batch, failure)
            self._settled()

    def room_freed(self) -> None:
        """A sink can take requests again."""
        self.timer.call_soon()

    def _settled(self) -> None:
        self._on_settled()
        # After those who wait for the batches: what they send on learning of it goes out in this turn of the loop.
        self.timer.call_soon()

    # -- metadata

    async def _follow(self) -> None:
        while True:
            snapshot = self._cluster.snapshot
            self._on_metadata(snapshot)
            self.timer.call_soon()
            await self._cluster.wait_for_update(snapshot.generation)

    async def _ask_for_id(self) -> None:
        """Nothing is sent until there is an id. Batches expire meanwhile."""
        await self._producer_ids.ask(self._id_delayed, self._id_refused)
        self._asking_for_id = False
        self.timer.call_soon()

    def _id_delayed(self, error: KafkaError) -> None:
        for batch in self._accumulator.incomplete:
            batch.last_error = error

    def _id_refused(self, error: KafkaError) -> None:
        self._accumulator.fail_all(lambda _: error)
        self._on_settled()
