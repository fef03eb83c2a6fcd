"""One broker's Produce requests (franz-go's ``sink``): how many are in flight, compression, and backoff after failures.

A sink that hasn't had a response yet, or whose last request has failed, keeps one request in flight. More requests
would fail along with it. And while a connection is being made, requests wait in separate tasks, where nothing keeps
them in order. On a healthy connection ``send_nowait`` writes a request synchronously, so the order of :meth:`Sink.send`
calls is the order on the wire.

Large batches are compressed in threads. Their request waits in ``_queued``, and so does every later request that
contains a batch of the same partition: sequence numbers are already assigned, and the broker would reject a gap.
Requests for other partitions overtake it.

The format of batches (``_magic``) depends on the Produce versions that the broker supports: magic 2 since Kafka 0.11, 1
or 0 before. The sink knows it for certain once there's a connection. If the format turns out to be different, it builds
the request again. A new connection can lead to another release, because the broker was upgraded or downgraded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.errors import KafkaError, UnsupportedVersionError
from aiokproto.net.features import BATCHES, IDEMPOTENCE, TIMESTAMPS, ZSTD
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.config import ProducerConfig
from aiokproto.producer.transaction_manager import TransactionManager
from aiokproto.records import Compression

if TYPE_CHECKING:
    from aiokproto.producer.sender import Sender

# Later versions of Produce contain topic ids instead of names (KIP-516).
LAST_VERSION_WITH_NAMES = 12
LAST_VERSION_OF_V1 = 11
"""The last version of Produce that needs a transaction's partitions to be added first (KIP-890)."""
LAST_VERSION_OF_MAGIC = {0: 1, 1: 2}
"""The last version of Produce that accepts message sets of each magic before 2."""

MIN_BYTES = 32 * 1024
"""Batches of at least this many bytes are compressed in a thread. For smaller batches the hand-over costs as much."""
MAX_THREADS = 4

Result = ProduceResponse | KafkaError | None
"""The result of a request. It's None with ``acks=0``, since there's no response."""


def message_format(versions: BrokerVersions) -> int:
    """Return the newest magic that a broker stores: 2, or 1 or 0 before Kafka 0.11."""
    if versions.supports(BATCHES):
        return 2
    return 1 if versions.supports(TIMESTAMPS) else 0


def needs_thread(batch: ProducerBatch) -> bool:
    """Whether a batch is large enough to be compressed in a thread."""
    return batch.compresses and batch.size >= MIN_BYTES


class CompressionPool:
    """The producer's compression threads. It doesn't use the loop's executor, which the application may have filled."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._running: set[asyncio.Future[bytearray]] = set()

    def submit(self, batch: ProducerBatch, magic: int) -> asyncio.Future[bytearray]:
        """Seal a batch in a thread, in the format ``magic``. Call this in the running loop."""
        # Start the threads with the first large batch: most producers never need them.
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="aiokproto-compression")
        seal = batch.seal if magic == batch.magic else partial(batch.convert, magic)
        future = asyncio.get_running_loop().run_in_executor(self._threads, seal)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def close(self) -> None:
        """Stop the threads, without waiting for compressions that are running."""
        if self._threads is not None:
            # Waiting for a running compression would block the event loop. If none is running, the threads end at once,
            # so no thread outlives the producer.
            self._threads.shutdown(wait=not self._running, cancel_futures=True)


class _Queued:
    """A request that hasn't been written yet, and the number of its batches that are still being compressed."""

    __slots__ = ("batches", "compressing")

    def __init__(self, batches: list[ProducerBatch]) -> None:
        self.batches = batches
        self.compressing = 0


class Sink:
    """Sends Produce requests to one broker. A slow or failing broker doesn't delay requests to other brokers."""

    def __init__(
        self,
        node: int,
        cluster: ClusterClient,
        settings: ProducerConfig,
        request_timeout: float,
        compression: CompressionPool,
        sender: Sender,
        transactions: TransactionManager | None = None,
    ) -> None:
        """Create a sink in the running loop.

        Args:
            node: The broker's node id.
            cluster: Sends the requests.
            settings: The producer's options.
            request_timeout: Maximum wait for a response (s).
            compression: Threads that compress batches.
            sender: Notified of the result of each request, and when the sink has capacity again.
            transactions: The transactional id's manager, if any.
        """
        self._node = node
        self._cluster = cluster
        self._settings = settings
        self._timeout = request_timeout
        self._timeout_ms = round(request_timeout * 1000)
        self._compression = compression
        self._sender = sender
        self._transactions = transactions
        self._loop = asyncio.get_running_loop()
        self._magic = message_format(cluster.metadata.versions)
        # The versions of the connection that the format was determined from. Each connection has its own object.
        self._versions: BrokerVersions | None = None
        # It's a list because a request can leave it from the middle: requests for other partitions don't have to wait.
        self._queued: list[_Queued] = []
        # A request counts from the call of send(), even while it's being compressed: this limits what the sink holds,
        # not only what's on the wire.
        self._in_flight = 0
        # True if the last request got a response; False before the first request. See the module's docstring.
        self._healthy = False
        # Number of consecutive failed requests, for the backoff. Any response resets it, even a response with error
        # codes.
        self._failures = 0
        self._backoff: asyncio.TimerHandle | None = None

    def has_capacity(self) -> bool:
        """Whether another request can be sent now."""
        # One request is enough to find out whether the broker is back.
        # guard: a broker that failed gets one request until it responds -> self._settings.limits.in_flight
        limit = self._settings.limits.in_flight if self._healthy else 1
        # guard: a broker that failed is tried again after a pause -> self._in_flight < limit
        return self._backoff is None and self._in_flight < limit

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight or waiting, and no backoff is running."""
        return not self._in_flight and not self._queued and self._backoff is None

    def close(self) -> None:
        """Start no more requests."""
        # The producer fails these batches itself: only requests that were started report a result.
        self._queued.clear()
        if self._backoff is not None:
            self._backoff.cancel()

    def send(self, batches: list[ProducerBatch]) -> None:
        """Send batches of different partitions in one request, or in two so small batches don't have to wait for
        compression.

        The request is written before this returns, unless it contains batches that are compressed in threads, or that
        wait for such batches of the same partition.
        """
        # The common path doesn't need the lists below.
        if self._settings.compression is Compression.NONE and not self._queued:
            self._in_flight += 1
            self._start(batches)
            return
        # Compressed batches must not delay small ones. But two requests at once are allowed only on a connection that
        # is known to work: see the module's docstring.
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
                self._compression.submit(batch, self._magic).add_done_callback(partial(self._compressed, queued, batch))
        # guard: compressing keeps the order of a partition -> queued.compressing
        if queued.compressing or self._queued:
            self._queued.append(queued)
            # A request that is ready at once must also wait for earlier requests for its partitions.
            self._start_queued()
        else:
            self._start(batches)

    def _compressed(self, queued: _Queued, batch: ProducerBatch, future: asyncio.Future[bytearray]) -> None:
        # The future is cancelled only by the pool's shutdown, when the producer has ended.
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception) and not batch.done:
            self._sender.compression_failed(batch, error)
        queued.compressing -= 1
        self._start_queued()

    def _start_queued(self) -> None:
        """Start requests whose compression is done, unless an earlier request contains a batch of the same
        partition."""
        blocked: set[object] = set()
        # Requests are in order of arrival. A request is blocked by any earlier request for one of its partitions,
        # whether that one is being compressed or is itself blocked.
        for queued in list(self._queued):
            partitions = {batch.topic_partition for batch in queued.batches}
            if queued.compressing or not blocked.isdisjoint(partitions):
                blocked |= partitions
            else:
                # Remove it before starting it: the start can fail, and the result runs this method again.
                self._queued.remove(queued)
                self._start_rest(queued.batches)

    def _start_rest(self, batches: list[ProducerBatch]) -> None:
        """Start a request without the batches that expired or failed while it was being compressed."""
        left = [batch for batch in batches if not batch.done]
        if left:
            self._start(left)
        else:
            self._in_flight -= 1
            self._sender.capacity_freed()

    def _start(self, batches: list[ProducerBatch]) -> None:
        """Write one request."""
        request, max_version = self._request(batches)
        if not request.topic_data:
            self._in_flight -= 1
            self._sender.capacity_freed()
            return
        respond = partial(self._responded, request, batches)
        # This may not be the connection of the last response, and may lead to another release.
        connection = self._cluster.pool.ready(self._node)
        if (None if connection is None else connection.versions) is not self._versions:
            self._healthy = False
        # With acks=0, no response confirms that the broker takes data. So always take the path that waits for the write
        # buffer, or requests to a dead broker would pile up without limit.
        if self._healthy and self._settings.acks:
            try:
                written = self._cluster.send_nowait(
                    request, self._node, respond, timeout=self._timeout, max_version=max_version
                )
            except KafkaError as error:
                # This is a result like any other: the batches are in flight and must return to their queues.
                respond(error)
                return
            if written:
                return
            # The connection is closed. Only one request may wait for the next connection.
            self._healthy = False
        # The request wasn't written, because the connection is gone or has been replaced. One request reconnects, and
        # later ones wait for its result.
        self._sender.spawn(self._connect_and_send(batches, request, max_version))

    def _request(self, batches: list[ProducerBatch]) -> tuple[ProduceRequest, int | None]:
        """Return the request and its maximum version, if any: topics with an unknown id need names (KIP-516)."""
        topics: dict[str, TopicProduceData] = {}
        known = self._cluster.snapshot.topics
        transactions = self._transactions
        # A later version would add the partition itself, which a broker accepts only for a transaction of version 2.
        max_version = LAST_VERSION_OF_V1 if transactions is not None and not transactions.v2 else None
        if self._magic != 2:
            max_version = LAST_VERSION_OF_MAGIC[self._magic]
        for batch in batches:
            data = batch.seal() if batch.magic == self._magic else self._converted(batch)
            if data is None:
                continue
            name, partition = batch.topic_partition
            topic = topics.get(name)
            if topic is None:
                info = known.get(name)
                # The id comes from the same snapshot as the leader. So if the topic was recreated, the broker responds
                # with UNKNOWN_TOPIC_ID instead of writing to the wrong topic (KIP-516).
                topic_id = info.topic_id if info is not None else ZERO_UUID
                # Versions up to LAST_VERSION_OF_V1 contain names anyway.
                if topic_id == ZERO_UUID and max_version is None:
                    max_version = LAST_VERSION_WITH_NAMES
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topic.partition_data.append(PartitionProduceData(index=partition, records=data))
        request = ProduceRequest(
            transactional_id=None if transactions is None else transactions.id.name,
            acks=self._settings.acks,
            timeout_ms=self._timeout_ms,
            topic_data=list(topics.values()),
        )
        return request, max_version

    def _converted(self, batch: ProducerBatch) -> bytearray | None:
        """Return a batch in the broker's format, or None if it failed because the format can't represent its
        records."""
        try:
            return None if batch.done else batch.convert(self._magic)
        except KafkaError as error:
            self._sender.compression_failed(batch, error)
            return None

    async def _connect_and_send(
        self,
        batches: list[ProducerBatch],
        request: ProduceRequest,
        max_version: int | None,
    ) -> None:
        """Send a request that has to wait for a connection or, with ``acks=0``, for the socket's write buffer."""
        try:
            if await self._format_changed(batches):
                # Leave out batches that have failed or expired.
                request, max_version = self._request([batch for batch in batches if not batch.done])
                if not request.topic_data:
                    # Every batch has already failed on its own.
                    self._in_flight -= 1
                    self._sender.capacity_freed()
                    return
            send = self._cluster.send if self._settings.acks else self._cluster.send_oneway
            result: Result = await send(request, self._node, timeout=self._timeout, max_version=max_version)
        except KafkaError as error:
            result = error
        # With the request as it was sent, because a response may name its topics only by the ids in there (KIP-516).
        self._responded(request, batches, result)

    async def _format_changed(self, batches: list[ProducerBatch]) -> bool:
        """Connect, and return whether the request has to be built again because the broker needs another format.

        The producer may have been started with a newer broker. If this broker doesn't support what the producer uses,
        all batches fail.
        """
        # This dials if necessary, and the request below finds the connection.
        versions = await self._cluster.broker_versions(self._node)
        if versions is self._versions:
            return False
        try:
            if self._settings.idempotent:
                versions.require(IDEMPOTENCE, "use enable_idempotence=False while the cluster has such brokers")
            if self._settings.compression is Compression.ZSTD:
                versions.require(ZSTD)
        except UnsupportedVersionError as error:
            # Don't fail the request with this error, which would end the producer: the other brokers can still be used.
            for batch in batches:
                if not batch.done:
                    self._sender.compression_failed(batch, error)
            return True
        self._versions = versions
        magic, self._magic = self._magic, message_format(versions)
        return self._magic != magic

    def _responded(self, request: ProduceRequest, batches: list[ProducerBatch], result: Result) -> None:
        self._in_flight -= 1
        # An error code is a response too, so the connection works.
        self._healthy = not isinstance(result, KafkaError)
        if self._healthy:
            self._failures = 0
        elif self._backoff is None:
            # All requests on a lost connection fail together, so count them as one failure for the backoff.
            self._failures += 1
            self._backoff = self._loop.call_later(self._cluster.backoff.delay(self._failures), self._end_backoff)
        # This comes last: it runs the sender, which calls has_capacity().
        self._sender.request_completed(self._node, request, batches, result)

    def _end_backoff(self) -> None:
        self._backoff = None
        self._sender.capacity_freed()


class Sinks:
    """A producer's sinks, one for each broker that it has sent to."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: ProducerConfig,
        request_timeout: float,
        sender: Sender,
        transactions: TransactionManager | None,
    ) -> None:
        """Create an object without sinks. :class:`Sink` explains the arguments."""
        self._cluster = cluster
        self._settings = settings
        self._request_timeout = request_timeout
        self._sender = sender
        self._transactions = transactions
        self._compression = CompressionPool()
        self._sinks: dict[int, Sink] = {}

    def get(self, node: int) -> Sink:
        """Return the sink of a broker. Create it the first time."""
        sink = self._sinks.get(node)
        if sink is None:
            sink = self._sinks[node] = Sink(
                node,
                self._cluster,
                self._settings,
                self._request_timeout,
                self._compression,
                self._sender,
                self._transactions,
            )
        return sink

    def has_capacity(self, node: int) -> bool:
        """Whether another request can be sent to a broker now."""
        return self.get(node).has_capacity()

    def forget_all_but(self, nodes: Collection[int]) -> list[int]:
        """Forget brokers that have left the cluster, once they have nothing to do. Return their node ids."""
        left = [node for node, sink in self._sinks.items() if node not in nodes and sink.is_idle]
        for node in left:
            del self._sinks[node]
        return left

    def close(self) -> None:
        """Start no more requests, and stop the threads that compress."""
        self._compression.close()
        for sink in self._sinks.values():
            sink.close()
