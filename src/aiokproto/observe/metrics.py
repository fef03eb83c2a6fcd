"""The metrics that a client pushes to brokers (KIP-714), computed from the counters of its observers. Pure.

Names, units (milliseconds) and attributes follow the standard metrics in KIP-714, which the Java client also pushes.
Averages, maxima and rates cover the time since the last push that a broker accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from aiokproto.metrics import Metric
from aiokproto.observe.observers import ClusterObserver, ConsumerObserver, ProducerObserver, ShareObserver, Timing

PREFIX = "org.apache.kafka."

Kind = Literal["producer", "consumer", "admin.client"]


class ShareMetrics(NamedTuple):
    """The sources of a share consumer's metrics.

    Attributes:
        observer: Counts fetches and acknowledgements.
        delivered: Returns the number of delivered records.
        rebalances: Returns the durations of the member's rebalances.
        heartbeats: Returns the durations of its heartbeats.
    """

    observer: ShareObserver
    delivered: Callable[[], int]
    rebalances: Callable[[], Timing]
    heartbeats: Callable[[], Timing]


class MetricSource:
    """Computes a client's metrics."""

    def __init__(
        self,
        kind: Kind,
        cluster: ClusterObserver,
        *,
        producer: ProducerObserver | None = None,
        consumer: ConsumerObserver | None = None,
        share: ShareMetrics | None = None,
        rebalances: Callable[[], Timing] | None = None,
        assigned: Callable[[], int] | None = None,
        labels: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Create a source.

        Args:
            kind: The kind of client, which prefixes the names of its metrics.
            cluster: Counts requests.
            producer: Counts batches.
            consumer: Counts fetches and commits.
            share: The sources of a share consumer's metrics.
            rebalances: Returns the durations of the member's rebalances; None if there's no group.
            assigned: Returns the number of assigned partitions.
            labels: Returns the client's attributes, such as its group.
        """
        self.labels = labels
        self._kind = kind
        self._cluster = cluster
        self._producer = producer
        self._consumer = consumer
        self._share = share
        self._rebalances = rebalances
        self._assigned = assigned
        # The totals at the last accepted push, by metric.
        self._pushed: dict[object, float] = {}
        self._pushed_at: float | None = None
        # The totals of the last collect(). pushed() moves them to _pushed.
        self._seen: dict[object, float] = {}
        self._seen_at = 0.0
        self._timings: list[Timing] = []

    def collect(self, now: float, *, delta: bool, application: Iterable[Metric] = ()) -> list[Metric]:
        """Return the metrics that have a value.

        Args:
            now: The time (s).
            delta: Whether sums are the increase since the last push.
            application: Metrics of the application, whose sums are totals. They are added under their own names
                (KIP-1076).
        """
        self._seen, self._seen_at, self._timings = {}, now, []
        return [
            metric._replace(name=f"{PREFIX}{self._kind}.{metric.name}")
            for part in self._parts(now, delta)
            for metric in part
        ] + [self._of_application(metric, delta) for metric in application]

    def pushed(self) -> None:
        """Note that a broker has accepted the last result of :meth:`collect`.

        The next result covers the time since then.
        """
        self._pushed, self._pushed_at = self._seen, self._seen_at
        for timing in self._timings:
            timing.forget_recent()

    def _parts(self, now: float, delta: bool) -> Iterator[Iterator[Metric]]:
        yield self._requests(now, delta)
        if self._producer is not None:
            yield self._duration("produce.throttle.time", self._producer.throttle)
            yield self._duration("record.queue.time", self._producer.queue_time)
        if self._consumer is not None:
            yield self._consuming(self._consumer, now)
        if self._share is not None:
            yield self._fetching_shares(self._share, now, delta)
            yield self._sharing(self._share, now, delta)
        if self._assigned is not None:
            yield iter([Metric("coordinator.assigned.partitions", self._assigned())])
        if self._rebalances is not None:
            rebalances = self._rebalances()
            yield self._duration("coordinator.rebalance.latency", rebalances)
            yield self._sum("coordinator.rebalance.latency.total", rebalances.total * 1000, delta)

    def _requests(self, now: float, delta: bool) -> Iterator[Metric]:
        opened = sum(node.opened for node in self._cluster.nodes.values())
        before, passed = self._pushed.get("connection.creation.total", 0), self._passed(now)
        if passed:
            yield Metric("connection.creation.rate", (opened - before) / passed)
        yield from self._sum("connection.creation.total", opened, delta)
        for node in self._cluster.nodes.values():
            # Skip bootstrap addresses: their ids mean nothing to the brokers' operators.
            if node.node >= 0:
                yield from self._duration("node.request.latency", node.latency, {"node_id": f"node-{node.node}"})

    def _consuming(self, consumer: ConsumerObserver, now: float) -> Iterator[Metric]:
        yield from self._duration("fetch.manager.fetch.latency", consumer.fetches)
        yield from self._duration("coordinator.commit.latency", consumer.commits)
        yield from self._idle_ratio("poll.idle.ratio.avg", consumer.waited, now)

    def _fetching_shares(self, share: ShareMetrics, now: float, delta: bool) -> Iterator[Metric]:
        # Use the Java client's names: KIP-714 doesn't define standard metrics for share consumers.
        prefix, seen = "share.fetch.manager.", share.observer
        yield from self._spread(f"{prefix}fetch.size", seen.sizes)
        yield from self._spread(f"{prefix}records.per.request", seen.acquired)
        yield from self._duration(f"{prefix}fetch.latency", seen.fetches)
        yield from self._duration(f"{prefix}fetch.throttle.time", seen.throttle)
        yield from self._counted(f"{prefix}bytes.consumed", int(seen.sizes.total), now, delta)
        yield from self._counted(f"{prefix}records.consumed", share.delivered(), now, delta)
        yield from self._counted(f"{prefix}acknowledgements.send", seen.sent, now, delta)
        yield from self._counted(f"{prefix}acknowledgements.error", seen.failed, now, delta)
        yield from self._counted(f"{prefix}fetch", seen.fetches.count, now, delta)

    def _sharing(self, share: ShareMetrics, now: float, delta: bool) -> Iterator[Metric]:
        seen, heartbeats, rebalances = share.observer, share.heartbeats(), share.rebalances().count
        yield from self._counted("share.coordinator.heartbeat", heartbeats.count, now, delta)
        self._timings.append(heartbeats)
        if heartbeats.recent_max:
            yield Metric("share.coordinator.heartbeat.response.time.max", heartbeats.recent_max * 1000)
        if passed := self._passed(now):
            hourly = self._since("rebalances hourly", rebalances) / passed * 3600
            yield Metric("share.coordinator.rebalance.rate.per.hour", hourly)
        yield from self._sum("share.coordinator.rebalance.total", rebalances, delta)
        yield from self._duration("share.time.between.poll", seen.polls)
        if seen.polled_at is not None:
            yield Metric("share.last.poll.seconds.ago", now - seen.polled_at)
        yield from self._idle_ratio("share.poll.idle.ratio.avg", seen.waited, now)

    def _idle_ratio(self, name: str, waited: float, now: float) -> Iterator[Metric]:
        waited, passed = self._since("waited", waited), self._passed(now)
        if passed:
            yield Metric(name, min(waited / passed, 1.0))

    def _counted(self, name: str, total: int, now: float, delta: bool) -> Iterator[Metric]:
        increase = self._since((name, "rate"), total)
        if passed := self._passed(now):
            yield Metric(f"{name}.rate", increase / passed)
        yield from self._sum(f"{name}.total", total, delta)

    def _duration(self, name: str, timing: Timing, attributes: Mapping[str, str] | None = None) -> Iterator[Metric]:
        return self._spread(name, timing, 1000, attributes)

    def _spread(
        self, name: str, timing: Timing, factor: float = 1, attributes: Mapping[str, str] | None = None
    ) -> Iterator[Metric]:
        attributes = attributes or {}
        key = (name, *attributes.values())
        count, total = self._since((*key, "count"), timing.count), self._since((*key, "total"), timing.total)
        self._timings.append(timing)
        # KIP-714 recommends sparse metrics, so leave it out if nothing was recorded.
        if count:
            yield Metric(f"{name}.avg", total / count * factor, attributes=attributes)
            yield Metric(f"{name}.max", timing.recent_max * factor, attributes=attributes)

    def _sum(self, name: str, total: float, delta: bool) -> Iterator[Metric]:
        increase = self._since(name, total)
        yield Metric(name, increase if delta else total, is_sum=True)

    def _of_application(self, metric: Metric, delta: bool) -> Metric:
        if not metric.is_sum:
            return metric
        key = ("application", metric.name, *sorted(metric.attributes.items()))
        increase = self._since(key, metric.value)
        # If a total has decreased, counting has started again, for instance in a new object.
        return metric._replace(value=max(increase, 0)) if delta else metric

    def _since(self, key: object, total: float) -> float:
        self._seen[key] = total
        return total - self._pushed.get(key, 0)

    def _passed(self, now: float) -> float:
        # A rate needs an interval, and before the first push there is none.
        return 0.0 if self._pushed_at is None else now - self._pushed_at
