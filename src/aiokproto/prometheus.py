"""Statistics for Prometheus (extra ``prometheus``, which needs ``prometheus_client``).

A collector reads ``stats()`` on each scrape, and doesn't store anything. So there's no state outside the clients, and
no cost between scrapes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from aiokproto.observe.health import Health, HealthStatus
from aiokproto.observe.stats import ClientStats, Durations
from aiokproto.runtime import thread_id

if TYPE_CHECKING:
    from aiokproto.consumer import ConsumerStats
    from aiokproto.producer import ProducerStats
    from aiokproto.share import ShareConsumerStats

SCRAPE_TIMEOUT = 5.0
"""Maximum time that a scrape waits for the event loop (s)."""


class _Client(Protocol):
    """The common interface of producers, consumers, share consumers and :class:`~aiokproto.client.Client`."""

    def stats(self) -> ClientStats | ProducerStats | ConsumerStats | ShareConsumerStats: ...
    def health(self) -> Health: ...


class KafkaCollector(Collector):
    """A collector for the clients in one event loop.

    Create it in that loop, and add it to the registry that serves the page.

    ::

        registry = CollectorRegistry()
        registry.register(KafkaCollector(producer, consumer))
        start_http_server(9100, registry=registry)

    A scrape in another thread waits for the event loop, at most :data:`SCRAPE_TIMEOUT` seconds. If the loop is closed,
    or blocked for longer, the page contains only ``aiokproto_up 0``.

    Args:
        clients: Producers, consumers, share consumers and clients.
        partitions: Whether to report the position and lag of each assigned partition. It's off by default: there may be
            very many partitions. The sum and the maximum of the lags are always reported.
    """

    def __init__(self, *clients: _Client, partitions: bool = False) -> None:
        self._clients = clients
        self._partitions = partitions
        self._loop = asyncio.get_running_loop()
        self._thread = thread_id()

    def describe(self) -> Sequence[Metric]:
        """Return nothing: names depend on the kinds of clients, and registering the collector must not trigger a
        scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        try:
            seen = self._read()
        # The loop is closed or blocked. A page that reports that is better than an error page.
        except (RuntimeError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            seen = None
        up = GaugeMetricFamily("aiokproto_up", "Whether the event loop has answered the scrape.")
        up.add_metric([], 0 if seen is None else 1)
        yield up
        if seen is not None:
            yield from _Page(self._partitions).families(seen)

    def _read(self) -> list[tuple[object, Health]]:
        if thread_id() == self._thread:
            return self._snapshot()
        result: concurrent.futures.Future[list[tuple[object, Health]]] = concurrent.futures.Future()

        def read() -> None:
            try:
                result.set_result(self._snapshot())
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                result.set_exception(error)

        self._loop.call_soon_threadsafe(read)
        return result.result(SCRAPE_TIMEOUT)

    def _snapshot(self) -> list[tuple[object, Health]]:
        return [(client.stats(), client.health()) for client in self._clients]


class _Page:
    """Builds the metric families of one scrape."""

    def __init__(self, partitions: bool) -> None:
        self._partitions = partitions
        self._families: dict[str, Metric] = {}

    def families(self, seen: Sequence[tuple[object, Health]]) -> Iterator[Metric]:
        from aiokproto.consumer import ConsumerStats
        from aiokproto.producer import ProducerStats
        from aiokproto.share import ShareConsumerStats

        for number, (stats, health) in enumerate(seen):
            # The number distinguishes clients with the same client_id.
            if isinstance(stats, ProducerStats):
                labels = ("producer", stats.client.client_id, str(number))
                self._client(stats.client, health, labels)
                self._producer(stats, labels)
            elif isinstance(stats, ConsumerStats):
                labels = ("consumer", stats.client.client_id, str(number))
                self._client(stats.client, health, labels)
                self._consumer(stats, labels)
            elif isinstance(stats, ShareConsumerStats):
                labels = ("share-consumer", stats.client.client_id, str(number))
                self._client(stats.client, health, labels)
                self._share(stats, labels)
            elif isinstance(stats, ClientStats):
                self._client(stats, health, ("client", stats.client_id, str(number)))
        yield from self._families.values()

    def _gauge(self, name: str, text: str, labels: tuple[str, ...], value: float, **more: str) -> None:
        family = self._families.setdefault(
            name, GaugeMetricFamily(f"aiokproto_{name}", text, labels=("kind", "client_id", "client", *more))
        )
        assert isinstance(family, GaugeMetricFamily)
        family.add_metric([*labels, *more.values()], value)

    def _count(self, name: str, text: str, labels: tuple[str, ...], value: float, **more: str) -> None:
        family = self._families.setdefault(
            name, CounterMetricFamily(f"aiokproto_{name}", text, labels=("kind", "client_id", "client", *more))
        )
        assert isinstance(family, CounterMetricFamily)
        family.add_metric([*labels, *more.values()], value)

    def _summary(self, name: str, text: str, labels: tuple[str, ...], value: Durations, **more: str) -> None:
        family = self._families.setdefault(
            name, SummaryMetricFamily(f"aiokproto_{name}", text, labels=("kind", "client_id", "client", *more))
        )
        assert isinstance(family, SummaryMetricFamily)
        family.add_metric([*labels, *more.values()], value.count, value.total)

    def _client(self, stats: ClientStats, health: Health, labels: tuple[str, ...]) -> None:
        for status in HealthStatus:
            value = 1.0 if health.status is status else 0.0
            self._gauge("health", "1 for the current state.", labels, value, status=status.value)
        if stats.metadata_age is not None:
            self._gauge("metadata_age_seconds", "Since a broker sent metadata.", labels, stats.metadata_age)
        self._count("metadata_refreshes", "Metadata refreshes.", labels, stats.metadata_refreshes)
        self._count("metadata_failures", "Failed metadata refreshes.", labels, stats.metadata_failures)
        self._count("request_retries", "Requests that calls have sent again.", labels, stats.retries)
        for node, seen in stats.brokers.items():
            broker = str(node)
            self._gauge("connections", "Open connections.", labels, len(seen.connections), broker=broker)
            self._gauge("requests_in_flight", "Without a response.", labels, seen.in_flight, broker=broker)
            self._count("connections_opened", "Opened connections.", labels, seen.connections_opened, broker=broker)
            self._count("connection_failures", "Failed attempts.", labels, seen.connection_failures, broker=broker)
            self._count("requests", "Requests written.", labels, seen.requests, broker=broker)
            self._count("request_errors", "Requests without a response.", labels, seen.request_errors, broker=broker)
            self._count("sent_bytes", "Bytes of requests.", labels, seen.bytes_sent, broker=broker)
            self._count("received_bytes", "Bytes of responses.", labels, seen.bytes_received, broker=broker)
            self._summary("request_latency_seconds", "From request to response.", labels, seen.latency, broker=broker)
            self._summary("throttle_seconds", "Pauses by quotas.", labels, seen.throttled, broker=broker)

    def _producer(self, stats: ProducerStats, labels: tuple[str, ...]) -> None:
        self._gauge("buffered_records", "Records without an outcome.", labels, stats.buffered_records)
        self._gauge("buffered_batches", "Their batches.", labels, stats.buffered_batches)
        self._gauge("buffered_bytes", "Bytes of buffer_memory in use.", labels, stats.buffered_bytes)
        self._gauge("buffer_memory_bytes", "The option buffer_memory.", labels, stats.buffer_memory)
        self._gauge("oldest_batch_age_seconds", "Age of the oldest of them.", labels, stats.oldest_age)
        self._count("batches_written", "Acknowledged batches.", labels, stats.batches_written)
        self._count("records_written", "Acknowledged records.", labels, stats.records_written)
        self._count("written_bytes", "Bytes of acknowledged batches.", labels, stats.bytes_written)
        self._count("batches_failed", "Batches that were given up.", labels, stats.batches_failed)
        self._count("records_failed", "Records that were given up.", labels, stats.records_failed)
        self._count("batch_retries", "Batches that were sent again.", labels, stats.retries)
        self._summary("record_queue_seconds", "From first record to first request.", labels, stats.queue_time)
        self._summary("delivery_seconds", "From first record to acknowledgement.", labels, stats.latency)
        for committed, count in ((True, stats.transactions_committed), (False, stats.transactions_aborted)):
            outcome = "committed" if committed else "aborted"
            self._count("transactions", "Transactions that ended.", labels, count, outcome=outcome)

    def _consumer(self, stats: ConsumerStats, labels: tuple[str, ...]) -> None:
        lags = [partition.lag for partition in stats.partitions.values() if partition.lag is not None]
        self._gauge("assigned_partitions", "Assigned partitions.", labels, len(stats.partitions))
        self._gauge("lag", "Sum of the known lags.", labels, sum(lags))
        self._gauge("lag_max", "The largest lag.", labels, max(lags, default=0))
        self._reading(stats, labels)
        self._count("offset_resets", "Positions that were not in the log any more.", labels, stats.offset_resets)
        self._summary("commit_seconds", "Successful commits.", labels, stats.commit_latency)
        self._count("commit_failures", "Failed commits.", labels, stats.commit_failures)
        if self._partitions:
            for (topic, number), seen in stats.partitions.items():
                partition = {"topic": topic, "partition": str(number)}
                if seen.position is not None:
                    self._gauge("partition_position", "The next offset to deliver.", labels, seen.position, **partition)
                if seen.lag is not None:
                    self._gauge("partition_lag", "Offsets behind the end of the log.", labels, seen.lag, **partition)

    def _reading(self, stats: ConsumerStats | ShareConsumerStats, labels: tuple[str, ...]) -> None:
        """Add the metrics that consumers and share consumers have in common."""
        self._gauge("fetched_bytes_buffered", "Fetched and not decoded.", labels, stats.buffered_bytes)
        self._gauge("group_generation", "The group's generation; -1 outside of any.", labels, stats.generation)
        for change in ("assigned", "revoked", "lost"):
            self._count("rebalances", "Changes of the assignment.", labels, getattr(stats, change), change=change)
        self._summary("join_seconds", "Joining a generation.", labels, stats.rebalance_latency)
        self._summary(
            "fetch_seconds", "From Fetch to response, with the wait for records.", labels, stats.fetch_latency
        )
        self._count("fetch_failures", "Failed Fetch requests.", labels, stats.fetch_failures)
        self._count("fetched_bytes", "Bytes of records.", labels, stats.bytes_fetched)
        self._count("records_delivered", "Delivered records.", labels, stats.records_delivered)
        self._count("batches_delivered", "Delivered batches.", labels, stats.batches_delivered)
        self._count("waited_seconds", "In which a call waited for records.", labels, stats.waited)
        run = stats.run
        self._count("run_processed", "Records that the handler of run() has finished.", labels, run.processed)
        self._count("run_retried", "Failed calls that were made again, or records released.", labels, run.retried)
        self._count("run_dead_lettered", "Records given up: dead letters or rejected.", labels, run.dead_lettered)
        self._count("run_failed", "Calls of the handler that raised or took too long.", labels, run.failed)
        self._gauge("run_pending", "Records that run() has taken and not finished.", labels, run.pending)
        self._gauge("run_running", "Calls of the handler that run.", labels, run.running)

    def _share(self, stats: ShareConsumerStats, labels: tuple[str, ...]) -> None:
        assigned = sum(partition.assigned for partition in stats.partitions.values())
        self._gauge("assigned_partitions", "Assigned partitions.", labels, assigned)
        self._gauge("records_held", "Delivered and not acknowledged.", labels, stats.held)
        self._reading(stats, labels)
        self._count("records_acquired", "Acquired records.", labels, stats.records_acquired)
        self._count("records_redelivered", "Acquired, and delivered before.", labels, stats.records_redelivered)
        for kind, count in (
            ("accept", stats.records_accepted),
            ("release", stats.records_released),
            ("reject", stats.records_rejected),
        ):
            self._count("records_acknowledged", "Acknowledged records.", labels, count, acknowledgement=kind)
        self._count("locks_renewed", "Records whose lock was renewed.", labels, stats.locks_renewed)
        self._count("locks_expired", "Not acknowledged in time.", labels, stats.locks_expired)
        self._count("acknowledgement_failures", "Without effect.", labels, stats.acknowledgement_failures)
