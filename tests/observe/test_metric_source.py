"""The pushed metrics: names, values, and the time that they cover."""

from __future__ import annotations

import pytest

from aiokproto.metrics import Metric
from aiokproto.observe.metrics import MetricSource, ShareMetrics
from aiokproto.observe.observers import ClusterObserver, ConsumerObserver, ProducerObserver, ShareObserver, Timing


def values(metrics: list[Metric]) -> dict[str, float]:
    return {metric.name.removeprefix("org.apache.kafka."): metric.value for metric in metrics}


def test_the_standard_metrics_of_a_producer() -> None:
    cluster, producer = ClusterObserver(), ProducerObserver()
    node = cluster.node(1)
    node.connected("1", "main", 0.1)
    node.received(0, 13, 100, 0.0, 0.010)
    node.received(0, 13, 100, 0.0, 0.030)
    producer.queue_time.add(0.005)
    producer.throttle.add(0.0)
    found = MetricSource("producer", cluster, producer=producer).collect(100.0, delta=False)
    assert values(found) == {
        "producer.connection.creation.total": 1,
        "producer.node.request.latency.avg": pytest.approx(20),
        "producer.node.request.latency.max": pytest.approx(30),
        "producer.produce.throttle.time.avg": 0,
        "producer.produce.throttle.time.max": 0,
        "producer.record.queue.time.avg": pytest.approx(5),
        "producer.record.queue.time.max": pytest.approx(5),
    }
    latency = next(metric for metric in found if metric.name.endswith("latency.avg"))
    assert latency.attributes == {"node_id": "node-1"}


def test_the_standard_metrics_of_a_consumer() -> None:
    consumer, rebalances = ConsumerObserver(), Timing()
    source = MetricSource(
        "consumer", ClusterObserver(), consumer=consumer, rebalances=lambda: rebalances, assigned=lambda: 4
    )
    source.collect(100.0, delta=True)
    source.pushed()
    consumer.fetches.add(0.2)
    consumer.committed(1, 0.05, None)
    consumer.waited += 2.5
    rebalances.add(0.4)
    assert values(source.collect(110.0, delta=True)) == {
        "consumer.connection.creation.rate": 0,
        "consumer.connection.creation.total": 0,
        "consumer.fetch.manager.fetch.latency.avg": pytest.approx(200),
        "consumer.fetch.manager.fetch.latency.max": pytest.approx(200),
        "consumer.coordinator.commit.latency.avg": pytest.approx(50),
        "consumer.coordinator.commit.latency.max": pytest.approx(50),
        "consumer.poll.idle.ratio.avg": pytest.approx(0.25),
        "consumer.coordinator.assigned.partitions": 4,
        "consumer.coordinator.rebalance.latency.avg": pytest.approx(400),
        "consumer.coordinator.rebalance.latency.max": pytest.approx(400),
        "consumer.coordinator.rebalance.latency.total": pytest.approx(400),
    }


def test_values_are_relative_to_the_last_push_that_was_accepted() -> None:
    cluster, producer = ClusterObserver(), ProducerObserver()
    source = MetricSource("producer", cluster, producer=producer)
    node = cluster.node(0)
    for _ in range(3):
        node.connected("0", "main", 0.0)
    producer.queue_time.add(0.9)
    source.collect(10.0, delta=True)
    source.pushed()
    node.connected("0", "main", 0.0)
    producer.queue_time.add(0.1)
    expected = {"producer.connection.creation.total": 1, "producer.record.queue.time.max": pytest.approx(100)}
    for _ in range(2):
        # The first push is refused, so the second must have all of it, too.
        found = values(source.collect(20.0, delta=True))
        assert {name: found[name] for name in expected} == expected
    assert values(source.collect(20.0, delta=True))["producer.connection.creation.rate"] == pytest.approx(0.1)
    source.pushed()
    later = values(source.collect(30.0, delta=True))
    assert later["producer.connection.creation.total"] == 0
    assert not {name for name in later if "queue" in name}, "nothing was recorded since"
    assert values(source.collect(30.0, delta=False))["producer.connection.creation.total"] == 4


def test_bootstrap_addresses_have_no_latency_of_their_own() -> None:
    cluster = ClusterObserver()
    cluster.node(-1).received(3, 13, 10, 0.0, 0.1)
    assert values(MetricSource("admin.client", cluster).collect(1.0, delta=True)) == {
        "admin.client.connection.creation.total": 0
    }


def test_the_metrics_of_a_share_consumer_have_the_names_of_the_java_client() -> None:
    share, rebalances, heartbeats = ShareObserver(), Timing(), Timing()
    delivered = 0
    parts = ShareMetrics(share, lambda: delivered, lambda: rebalances, lambda: heartbeats)
    source = MetricSource("consumer", ClusterObserver(), share=parts)
    source.collect(100.0, delta=True)
    source.pushed()
    share.fetches.add(0.2)
    share.sizes.add(5000)
    share.acquired.add(50)
    share.throttle.add(0.01)
    share.sent, share.failed, share.waited, delivered = 40, 10, 2.5, 20
    share.polled(104.0)
    share.polled(106.0)
    rebalances.add(0.4)
    heartbeats.add(0.003)
    fetch = "consumer.share.fetch.manager."
    found = values(source.collect(110.0, delta=True))
    assert {name: value for name, value in found.items() if name.startswith("consumer.share.")} == {
        f"{fetch}fetch.size.avg": 5000,
        f"{fetch}fetch.size.max": 5000,
        f"{fetch}records.per.request.avg": 50,
        f"{fetch}records.per.request.max": 50,
        f"{fetch}fetch.latency.avg": pytest.approx(200),
        f"{fetch}fetch.latency.max": pytest.approx(200),
        f"{fetch}fetch.throttle.time.avg": pytest.approx(10),
        f"{fetch}fetch.throttle.time.max": pytest.approx(10),
        f"{fetch}bytes.consumed.rate": 500,
        f"{fetch}bytes.consumed.total": 5000,
        f"{fetch}records.consumed.rate": 2,
        f"{fetch}records.consumed.total": 20,
        f"{fetch}acknowledgements.send.rate": 4,
        f"{fetch}acknowledgements.send.total": 40,
        f"{fetch}acknowledgements.error.rate": 1,
        f"{fetch}acknowledgements.error.total": 10,
        f"{fetch}fetch.rate": pytest.approx(0.1),
        f"{fetch}fetch.total": 1,
        "consumer.share.coordinator.heartbeat.rate": pytest.approx(0.1),
        "consumer.share.coordinator.heartbeat.total": 1,
        "consumer.share.coordinator.heartbeat.response.time.max": pytest.approx(3),
        "consumer.share.coordinator.rebalance.rate.per.hour": pytest.approx(360),
        "consumer.share.coordinator.rebalance.total": 1,
        "consumer.share.time.between.poll.avg": pytest.approx(2000),
        "consumer.share.time.between.poll.max": pytest.approx(2000),
        "consumer.share.last.poll.seconds.ago": pytest.approx(4),
        "consumer.share.poll.idle.ratio.avg": pytest.approx(0.25),
    }
