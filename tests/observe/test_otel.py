"""Spans and metrics, as the SDK of OpenTelemetry exports them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from aiokproto import Broker, Consumer, Producer, Record
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.consumer import Retry
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.semconv._incubating.attributes import messaging_attributes as names
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aiokproto.otel import SCHEMA_URL, Metrics, Tracing
from tests.timeouts import LONG_TIMEOUT


class Sdk(NamedTuple):
    """An SDK that keeps what it exports."""

    provider: TracerProvider
    exporter: InMemorySpanExporter
    meters: MeterProvider
    reader: InMemoryMetricReader

    def tracing(self, **options: Any) -> Tracing:
        return Tracing(tracer_provider=self.provider, meter_provider=self.meters, **options)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        found = [
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return [point for metric in found for point in metric.data.data_points]


def sdk(sampler: Sampler | None = None) -> Sdk:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Sdk(provider, exporter, MeterProvider(metric_readers=[reader]), reader)


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


async def broker_with_topic() -> AsyncIterator[Broker]:
    async with Broker() as broker:
        await broker.create_topic("flights")
        yield broker


broker = pytest.fixture(broker_with_topic)


async def consumed(broker: Broker, count: int, tracing: Tracing, **options: Any) -> list[Record]:
    consumer = Consumer(
        "flights",
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        interceptors=tracing,
        **options,
    )
    async with consumer:
        return [await asyncio.wait_for(anext(consumer), LONG_TIMEOUT) for _ in range(count)]


async def test_a_trace_goes_from_the_producer_to_the_processing(broker: Broker) -> None:
    otel = sdk()
    tracing = otel.tracing(client_id="me", group_id="report")
    async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=tracing) as producer:
        await producer.send("flights", b"UA 901", headers=[("own", b"1")])
    (record,) = await consumed(broker, 1, tracing)
    with tracing.process(record):
        pass
    send, poll, process = (otel.spans(name)[0] for name in ("send", "poll", "process"))
    assert (send.name, send.kind) == ("send flights", SpanKind.PRODUCER)
    assert send.attributes == {
        names.MESSAGING_SYSTEM: "kafka",
        names.MESSAGING_DESTINATION_NAME: "flights",
        names.MESSAGING_OPERATION_NAME: "send",
        names.MESSAGING_OPERATION_TYPE: "send",
        names.MESSAGING_CLIENT_ID: "me",
        names.MESSAGING_DESTINATION_PARTITION_ID: "0",
        names.MESSAGING_KAFKA_OFFSET: 0,
        names.MESSAGING_MESSAGE_BODY_SIZE: 6,
    }
    assert [name for name, _ in record.headers] == ["own", "traceparent"]
    assert (poll.name, poll.kind) == ("poll flights", SpanKind.CLIENT)
    assert poll.attributes is not None
    assert poll.attributes[names.MESSAGING_BATCH_MESSAGE_COUNT] == 1
    assert poll.attributes[names.MESSAGING_OPERATION_TYPE] == "receive"
    assert [link.context.span_id for link in poll.links] == [span_id(send)]
    assert (process.name, process.kind) == ("process flights", SpanKind.CONSUMER)
    assert trace_id(process) == trace_id(send)
    assert process.parent is not None
    assert process.parent.span_id == span_id(send)
    assert [link.context.span_id for link in process.links] == [span_id(send)]
    assert process.attributes is not None
    assert process.attributes[names.MESSAGING_KAFKA_OFFSET] == 0
    assert process.attributes[names.MESSAGING_CONSUMER_GROUP_NAME] == "report"
    (duration,) = otel.points(messaging_metrics.MESSAGING_PROCESS_DURATION)
    assert duration.count == 1


def test_the_conventions_are_the_newest_that_the_package_knows() -> None:
    assert SCHEMA_URL in {schema.value for schema in Schemas}


async def test_the_span_of_a_record_that_failed_says_why(broker: Broker) -> None:
    otel = sdk()
    broker.faults.fail(ProduceRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=otel.tracing()) as producer:
        with pytest.raises(AuthorizationError):
            await producer.send("flights", None)
    (span,) = otel.spans("send")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "TOPIC_AUTHORIZATION_FAILED"
    assert span.attributes[names.MESSAGING_KAFKA_MESSAGE_TOMBSTONE] is True


async def test_a_record_that_is_passed_on_gets_the_context_of_its_new_way(broker: Broker) -> None:
    otel = sdk()
    tracing = otel.tracing()
    old = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("own", None)]
    async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=tracing) as producer:
        await producer.send("flights", b"a", headers=old)
    (record,) = await consumed(broker, 1, tracing)
    contexts = [value for name, value in record.headers if name == "traceparent"]
    assert len(contexts) == 1
    assert contexts != [old[0][1]]


async def test_a_record_sent_while_another_is_processed_continues_its_trace(broker: Broker) -> None:
    otel = sdk()
    tracing = otel.tracing(receive_spans=False)
    async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=tracing) as producer:
        await producer.send("flights", b"a")
        (record,) = await consumed(broker, 1, tracing)
        with tracing.process(record):
            await producer.send("flights", b"b")
    assert len({trace_id(span) for span in otel.spans()}) == 1
    assert otel.spans("poll") == []


async def test_several_records_are_processed_in_one_span_with_links(broker: Broker) -> None:
    otel = sdk()
    tracing = otel.tracing()
    async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=tracing) as producer:
        await producer.send_many("flights", [b"a", b"b", b"c"])
    records = await consumed(broker, 3, tracing)
    with tracing.process(records):
        pass
    (process,) = otel.spans("process")
    assert process.attributes is not None
    assert process.attributes[names.MESSAGING_BATCH_MESSAGE_COUNT] == 3
    assert {link.context.span_id for link in process.links} == {span_id(span) for span in otel.spans("send")}
    assert process.parent is None


async def test_an_exception_in_processing_is_recorded_and_raised(broker: Broker) -> None:
    otel = sdk()
    tracing = otel.tracing()
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send("flights", b"a")
    (record,) = await consumed(broker, 1, tracing)
    with pytest.raises(ZeroDivisionError), tracing.process(record):
        raise ZeroDivisionError
    (span,) = otel.spans("process")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ZeroDivisionError"
    assert span.links == (), "the record had no context"
    (duration,) = otel.points("messaging.process.duration")
    assert duration.attributes["error.type"] == "ZeroDivisionError"


async def test_an_unsampled_trace_makes_no_span_but_carries_the_decision(broker: Broker) -> None:
    otel = sdk(ALWAYS_OFF)
    tracing = otel.tracing()
    async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=tracing) as producer:
        await producer.send("flights", b"a")
    (record,) = await consumed(broker, 1, tracing)
    with tracing.process(record):
        pass
    assert otel.spans() == []
    (context,) = [value for name, value in record.headers if name == "traceparent"]
    assert context is not None
    assert int(context[-2:], 16) & 1 == 0, "the flag says that it is not sampled"


async def test_without_an_sdk_nothing_happens(broker: Broker) -> None:
    tracing = Tracing(propagator=TraceContextTextMapPropagator())
    async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=tracing, hooks=Metrics()) as producer:
        await producer.send("flights", b"a")
    (record,) = await consumed(broker, 1, tracing)
    with tracing.process(record):
        pass
    assert record.headers == ()


@pytest.mark.parametrize("value", [b"\xff\xfe", None, b"", b"00-zz-zz-01"])
def test_a_header_without_a_valid_context_makes_no_link(value: bytes | None) -> None:
    otel = sdk()
    record = Record("flights", 0, 0, 0, None, b"a", (("traceparent", value),))
    with otel.tracing().process(record):
        pass
    (span,) = otel.spans("process")
    assert span.links == ()


def test_the_current_span_is_not_taken_for_the_context_of_a_record_without_one() -> None:
    otel = sdk()
    record = Record("flights", 0, 0, 0, None, b"a", (("own", b"1"),))
    with otel.provider.get_tracer("test").start_as_current_span("outer"), otel.tracing().process(record):
        pass
    (span,) = otel.spans("process")
    assert span.links == ()
    assert span.parent is not None, "it is a part of what goes on"


def test_without_records_there_is_no_span() -> None:
    otel = sdk()
    with otel.tracing().process([]):
        pass
    assert otel.spans() == []


async def test_the_metrics_of_a_run(broker: Broker) -> None:
    otel = sdk()
    servers = broker.bootstrap_servers
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send_many("flights", [b"a", b"b"])
    hooks = Metrics(meter_provider=otel.meters, group_id="g")
    options: Any = {"bootstrap_servers": servers, "group_id": "g", "auto_offset_reset": "earliest", "hooks": hooks}
    calls = 0

    async def handle(record: Record) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("once")
        if calls == 3:
            consumer.stop_run()

    async with Consumer("flights", **options) as consumer:
        await asyncio.wait_for(consumer.run(handle, retry=Retry(backoff_ms=0)), LONG_TIMEOUT)
    names_of_run = ("processed", "retried", "dead_lettered", "failed", "pending", "running")
    points = {name: otel.points(f"aiokproto.run.{name}") for name in names_of_run}
    assert {name: sum(point.value for point in found) for name, found in points.items()} == {
        "processed": 2,
        "retried": 1,
        "dead_lettered": 0,
        "failed": 1,
        "pending": 0,
        "running": 0,
    }
    (processed,) = points["processed"]
    assert processed.attributes == {
        names.MESSAGING_SYSTEM: "kafka",
        names.MESSAGING_DESTINATION_NAME: "flights",
        names.MESSAGING_OPERATION_NAME: "process",
        names.MESSAGING_OPERATION_TYPE: "process",
        names.MESSAGING_CONSUMER_GROUP_NAME: "g",
    }


async def test_the_metrics_of_a_producer_and_a_consumer(broker: Broker) -> None:
    otel = sdk()
    servers = broker.bootstrap_servers
    hooks = Metrics(meter_provider=otel.meters, client_id="me", group_id="g", partitions=True)
    async with Producer(bootstrap_servers=servers, hooks=hooks) as producer:
        await producer.send_many("flights", [b"a", b"b"])
        broker.faults.fail(ProduceRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
        with pytest.raises(AuthorizationError):
            await producer.send("flights", b"c")
    consumer = Consumer("flights", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", hooks=hooks)
    async with consumer:
        await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)
        await consumer.commit()
    sent = {point.attributes.get("error.type", ""): point for point in otel.points("messaging.client.sent.messages")}
    assert {error: point.value for error, point in sent.items()} == {"": 2, "TOPIC_AUTHORIZATION_FAILED": 1}
    assert sent[""].attributes == {
        names.MESSAGING_SYSTEM: "kafka",
        names.MESSAGING_DESTINATION_NAME: "flights",
        names.MESSAGING_DESTINATION_PARTITION_ID: "0",
        names.MESSAGING_OPERATION_NAME: "send",
        names.MESSAGING_OPERATION_TYPE: "send",
        names.MESSAGING_CLIENT_ID: "me",
    }
    (delivered,) = otel.points("messaging.client.consumed.messages")
    assert (delivered.value, delivered.attributes[names.MESSAGING_CONSUMER_GROUP_NAME]) == (1, "g")
    durations = otel.points("messaging.client.operation.duration")
    assert {point.attributes[names.MESSAGING_OPERATION_NAME] for point in durations} == {"send", "commit"}
    apis = {point.attributes["aiokproto.api"] for point in otel.points("aiokproto.request.duration")}
    assert {"Produce", "Fetch", "OffsetCommit", "Metadata"} <= apis
    assert {point.attributes["aiokproto.rebalance.kind"] for point in otel.points("aiokproto.rebalance.duration")} == {
        "assigned",
        "revoked",
    }
