"""The requests of one broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.errors import KafkaError, UnsupportedVersionError
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.compression import CompressionPool, needs_thread
from aiokproto.producer.config import ProducerConfig
from aiokproto.records import Compression

LAST_VERSION_WITH_NAMES = 12
FIRST_VERSION = {Compression.ZSTD: 7}
FIRST_VERSION_WITH_BATCHES = 3

Result = ProduceResponse | KafkaError | None
"""What became of a request. None: with ``acks=0`` there is no answer."""


class SinkListener(Protocol):
    """What a sink reports, and to whom."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task of the producer's."""

    def responded(self, node: int, request: ProduceRequest, batches: list[ProducerBatch], result: Result) -> None:
        """A request that was started has its result."""

    def compression_failed(self, batch: ProducerBatch, error: Exception) -> None:
        """A batch cannot be compressed, and is not sent."""

    def room_freed(self) -> None:
        """A sink can take requests again, without having had a result."""


class _Queued:
    """A request that is not written yet, and how many of its batches are still being compressed."""

    __slots__ = ("batches", "compressing")

    def __init__(self, batches: list[ProducerBatch]) -> None:
        self.batches = batches
        self.compressing = 0


class Sink:
    """Sends Produce requests to one broker.

    It limits how many are unanswered, waits after a failure, and keeps the order of each partition while batches are
    compressed. Whatever holds one broker's requests up, those of other brokers do not notice.
    """

    def __init__(
        self,
        node: int,
        cluster: ClusterClient,
        settings: ProducerConfig,
        request_timeout: float,
        compression: CompressionPool,
        events: SinkListener,
    ) -> None:
        """Make a sink; must be called in the running loop.

        Args:
            node: The broker's id.
            cluster: Connections.
            settings: The producer's options.
            request_timeout: How long the broker may take to answer (s).
            compression: Where batches are compressed.
            events: Where to report.
        """
        self._node = node
        self._cluster = cluster
        self._settings = settings
        self._timeout = request_timeout
        self._timeout_ms = round(request_timeout * 1000)
        self._compression = compression
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._queued: list[_Queued] = []
        self._in_flight = 0
        # Until it has answered, a broker gets one request at a time: the others would fail with it, and while a
        # connection is being made nothing keeps them in order.
        self._healthy = False
        self._failures = 0
        self._backoff: asyncio.TimerHandle | None = None

    def has_room(self) -> bool:
        """Whether another request may be sent now."""
        limit = self._settings.limits.in_flight if self._healthy else 1
        return self._backoff is None and self._in_flight < limit

    def close(self) -> None:
        """Start nothing more."""
        self._queued.clear()
        if self._backoff is not None:
            self._backoff.cancel()

    def send(self, batches: list[ProducerBatch]) -> None:
        """Send batches of different partitions in one request, or in two: small ones need not wait for threads.

        It is written before this returns, unless batches must be compressed, or come behind others of their partition
        that are.
        """
        if self._settings.compression is Compression.NONE and not self._queued:
            self._in_flight += 1
            self._start(batches)
            return
        quick = [batch for batch in batches if not needs_thread(batch)]
        two = self._healthy and self._in_flight + 1 < self._settings.limits.in_flight
        if two and 0 < len(quick) < len(batches):
            self._send(quick)
            self._send([batch for batch in batches if needs_thread(batch)])
        else:
            self._send(batches)

    def _send(self, batches: list[ProducerBatch]) -> None:
        self._in_flight += 1
        queued = _Queued(batches)
        for batch in batches:
            if needs_thread(batch):
                queued.compressing += 1
                self._compression.submit(batch).add_done_callback(partial(self._compressed, queued, batch))
        if queued.compressing or self._queued:
            self._queued.append(queued)
            self._start_queued()
        else:
            self._start(batches)

    def _compressed(self, queued: _Queued, batch: ProducerBatch, future: asyncio.Future[bytearray]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception) and not batch.done:
            self._events.compression_failed(batch, error)
        queued.compressing -= 1
        self._start_queued()

    def _start_queued(self) -> None:
        """Start what is compressed, in the order of each partition."""
        held: set[object] = set()
        for queued in list(self._queued):
            where = {batch.where for batch in queued.batches}
            if queued.compressing or not held.isdisjoint(where):
                held |= where
            else:
                self._queued.remove(queued)
                self._start_rest(queued.batches)

    def _start_rest(self, batches: list[ProducerBatch]) -> None:
        """Start a request with what has neither expired nor failed while it was compressed."""
        left = [batch for batch in batches if not batch.done]
        if left:
            self._start(left)
        else:
            self._in_flight -= 1
            self._events.room_freed()

    def _start(self, batches: list[ProducerBatch]) -> None:
        """Write one request."""
        request, max_version = self._request(batches)
        respond = partial(self._responded, request, batches)
        if self._healthy and self._settings.acks:
            try:
                written = self._cluster.send_nowait(
                    request, self._node, respond, timeout=self._timeout, max_version=max_version
                )
            except KafkaError as error:
                respond(error)
                return
            if written:
                return
            self._healthy = False
        self._events.spawn(self._connect_and_send(request, max_version, respond))

    def _request(self, batches: list[ProducerBatch]) -> tuple[ProduceRequest, int | None]:
        """The request, and the highest version it can have."""
        topics: dict[str, TopicProduceData] = {}
        known = self._cluster.snapshot.topics
        max_version = None
        for batch in batches:
            name, partition = batch.where
            topic = topics.get(name)
            if topic is None:
                info = known.get(name)
                topic_id = info.topic_id if info is not None else ZERO_UUID
                if topic_id == ZERO_UUID:
                    max_version = LAST_VERSION_WITH_NAMES
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topic.partition_data.append(PartitionProduceData(index=partition, records=batch.seal()))
        request = ProduceRequest(
            acks=self._settings.acks, timeout_ms=self._timeout_ms, topic_data=list(topics.values())
        )
        return request, max_version

    async def _connect_and_send(
        self, request: ProduceRequest, max_version: int | None, respond: Callable[[Result], None]
    ) -> None:
        """A request that has to wait: for a connection, or for room where no answer (``acks=0``) keeps it in bounds."""
        try:
            if not self._healthy:
                await self._check_version()
            send = self._cluster.send if self._settings.acks else self._cluster.send_oneway
            respond(await send(request, self._node, timeout=self._timeout, max_version=max_version))
        except KafkaError as error:
            respond(error)

    async def _check_version(self) -> None:
        """What is sent are batches of magic 2; brokers before 0.11 would take them for something else."""
        version = await self._cluster.version(ProduceRequest, self._node)
        codec = self._settings.compression
        needed = FIRST_VERSION.get(codec, FIRST_VERSION_WITH_BATCHES)
        if version < needed:
            raise UnsupportedVersionError(
                f"broker {self._node} takes Produce up to version {version}; record batches"
                f"{f' with {codec.name.lower()}' if codec else ''} need {needed}"
            )

    def _responded(self, request: ProduceRequest, batches: list[ProducerBatch], result: Result) -> None:
        self._in_flight -= 1
        self._healthy = not isinstance(result, KafkaError)
        if self._healthy:
            self._failures = 0
        elif self._backoff is None:
            # Requests that fail together, with their connection, are one failure.
            self._failures += 1
            self._backoff = self._loop.call_later(self._cluster.backoff(self._failures), self._end_backoff)
        self._events.responded(self._node, request, batches, result)

    def _end_backoff(self) -> None:
        self._backoff = None
        self._events.room_freed()
