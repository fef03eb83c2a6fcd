"""The Prometheus collector, scraped over HTTP."""

from __future__ import annotations

import asyncio
import threading
import urllib.request

import pytest

from aiokproto import Broker, Client, Consumer, Producer, Record

prometheus_client = pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, start_http_server  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from aiokproto import prometheus  # noqa: E402
from aiokproto.prometheus import KafkaCollector  # noqa: E402
from tests.timeouts import LONG_TIMEOUT  # noqa: E402

Sample = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(page: str) -> Sample:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def value(samples: Sample, name: str, **labels: str) -> float:
    """The one sample of that name with at least these labels."""
    (found,) = [
        number for (each, given), number in samples.items() if each == name and labels.items() <= dict(given).items()
    ]
    return found


async def scrape(registry: CollectorRegistry) -> Sample:
    """Serve the registry, as an application does, and get the page."""
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        url = f"http://127.0.0.1:{server.server_port}/metrics"

        def get() -> str:
            with urllib.request.urlopen(url, timeout=LONG_TIMEOUT) as response:
                text: str = response.read().decode()
                return text

        return parse(await asyncio.to_thread(get))
    finally:
        server.shutdown()
        server.server_close()
        await asyncio.to_thread(thread.join)


async def test_a_page_has_the_statistics_of_all_clients() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        servers = broker.bootstrap_servers
        consumer = Consumer("flights", bootstrap_servers=servers, auto_offset_reset="earliest", client_id="c")
        async with Producer(bootstrap_servers=servers, client_id="p") as producer, consumer:
            await producer.send("flights", b"a")
            await producer.send("flights", b"b")
            await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)
            async with Client(bootstrap_servers=servers) as client:
                registry = CollectorRegistry()
                registry.register(KafkaCollector(producer, consumer, client))
                samples = await scrape(registry)
    assert value(samples, "aiokproto_up") == 1
    assert value(samples, "aiokproto_records_written_total", client_id="p") == 2
    assert value(samples, "aiokproto_delivery_seconds_count", kind="producer") == 2
    assert value(samples, "aiokproto_records_delivered_total", client_id="c") == 1
    assert value(samples, "aiokproto_connections", kind="producer", broker="0") == 1
    assert value(samples, "aiokproto_health", kind="consumer", status="ok") == 1
    assert value(samples, "aiokproto_health", kind="consumer", status="failed") == 0
    assert value(samples, "aiokproto_requests_total", kind="producer", broker="0") >= 3
    assert not [name for name, labels in samples if "topic" in dict(labels)], "labels are bounded"


async def test_a_page_has_what_a_run_has_done() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_many("flights", [b"a", b"b"])

        async def handle(record: Record) -> None:
            if record.value == b"b":
                consumer.stop_run()

        async with Consumer("flights", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            await asyncio.wait_for(consumer.run(handle), LONG_TIMEOUT)
            registry = CollectorRegistry()
            registry.register(KafkaCollector(consumer))
            samples = await scrape(registry)
    assert value(samples, "aiokproto_run_processed_total", kind="consumer") == 2
    for name in ("retried_total", "dead_lettered_total", "failed_total", "pending", "running"):
        assert value(samples, f"aiokproto_run_{name}") == 0


async def test_partitions_are_reported_on_request() -> None:
    async with Broker() as broker:
        await broker.create_topic("flights", partitions=2)
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_many("flights", [b"a", b"b", b"c"], partition=1)
        async with Consumer("flights", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)
            registry = CollectorRegistry()
            registry.register(KafkaCollector(consumer, partitions=True))
            samples = await scrape(registry)
    assert value(samples, "aiokproto_partition_position", topic="flights", partition="1") == 1
    assert value(samples, "aiokproto_partition_lag", topic="flights", partition="1") == 2
    assert value(samples, "aiokproto_lag") == value(samples, "aiokproto_lag_max") == 2


async def test_two_clients_with_one_name_are_distinguished() -> None:
    async with Broker() as broker:
        servers = broker.bootstrap_servers
        async with Client(bootstrap_servers=servers) as one, Client(bootstrap_servers=servers) as two:
            registry = CollectorRegistry()
            registry.register(KafkaCollector(one, two))
            # In the loop's own thread, as an asyncio web server does.
            page = parse(prometheus_client.generate_latest(registry).decode())
    assert {dict(labels)["client"] for name, labels in page if name == "aiokproto_health"} == {"0", "1"}


async def test_a_blocked_event_loop_does_not_block_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "SCRAPE_TIMEOUT", 0.01)
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers) as client:
        collector = KafkaCollector(client)
        pages: list[list[str]] = []
        thread = threading.Thread(target=lambda: pages.append([family.name for family in collector.collect()]))
        thread.start()
        # The loop does nothing else meanwhile.
        thread.join()
    assert pages == [["aiokproto_up"]]


def test_a_closed_event_loop_is_reported() -> None:
    async def make() -> KafkaCollector:
        return KafkaCollector(Client(bootstrap_servers="localhost"))

    collector = asyncio.run(make())
    collector._thread = 0
    (up,) = collector.collect()
    assert up.samples[0].value == 0
