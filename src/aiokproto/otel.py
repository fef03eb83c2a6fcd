"""Traces and metrics for OpenTelemetry (extra ``otel``, which needs only ``opentelemetry-api``).

Names and attributes follow the semantic conventions for messaging and Kafka, in the version of :data:`SCHEMA_URL`.
:class:`Tracing` is an interceptor, and :class:`Metrics` are hooks; they can be used separately. Unless the application
configures an SDK, both cost little and don't report anything.

A producer's span ends when the record is acknowledged. A consumer can't see how the records that it delivers are
processed, so the application uses :meth:`Tracing.process` to create a span for that. Contexts are propagated in record
headers, by default in the W3C format (``traceparent``, ``tracestate``, ``baggage``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider

from aiokproto._version import __version__
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.hooks import (
    Acknowledged,
    BatchFailed,
    BatchRetried,
    BatchWritten,
    Committed,
    ConnectionFailed,
    ConnectionOpened,
    Hooks,
    OffsetReset,
    Rebalanced,
    RecordsDelivered,
    ResponseReceived,
    RunProgressed,
    Throttled,
    TransactionEnded,
)
from aiokproto.interceptors import Interceptor, OutgoingRecord
from aiokproto.runtime import monotonic
from aiokproto.types import Header, Record, RecordMetadata

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions."""

MAX_LINKS = 128
"""Maximum number of links in a span: the SDK's default limit. It would drop any more."""

# The bucket boundaries that the conventions recommend for durations (s).
_BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

Attributes = dict[str, str | int | bool]


class _HeaderSetter(Setter[list[Header]]):
    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _HeaderGetter(Getter[Sequence[Header]]):
    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        # Other clients may have written bytes that aren't text. These don't parse as a context.
        found = [value.decode(errors="replace") for name, value in carrier if name == key and value is not None]
        return found or None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _ in carrier]


_SETTER, _GETTER = _HeaderSetter(), _HeaderGetter()


class Tracing(Interceptor):
    """Creates spans for sending, receiving and processing records, and propagates their contexts in record headers.

    ::

        tracing = Tracing()
        async with Producer(bootstrap_servers=bootstrap, interceptors=tracing) as producer:
            await producer.send("flights", b"UA 901")
        async with Consumer("flights", bootstrap_servers=bootstrap, interceptors=tracing) as consumer:
            async for record in consumer:
                with tracing.process(record):
                    ...

    Args:
        tracer_provider: By default the global provider.
        meter_provider: The provider for ``messaging.process.duration``. By default the global provider.
        propagator: Reads and writes the headers. By default the global propagator.
        client_id: The value of ``messaging.client.id``, which is left out if empty.
        group_id: The value of ``messaging.consumer.group.name``, which is left out if empty.
        receive_spans: Whether each batch of delivered records gets a span ``poll {topic}`` with links to the records'
            contexts.
        continue_trace: Whether the span for processing one record continues the record's trace, as a child of the
            record's context. If not, or if there is a current span, it only links to the record's context.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
        client_id: str = "",
        group_id: str = "",
        receive_spans: bool = True,
        continue_trace: bool = True,
    ) -> None:
        self._tracer = trace.get_tracer("aiokproto", __version__, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter("aiokproto", __version__, meter_provider, SCHEMA_URL)
        self._durations = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._propagator = propagator or propagate.get_global_textmap()
        self._receive_spans = receive_spans
        self._continue_trace = continue_trace
        self._client: Attributes = {"messaging.client.id": client_id} if client_id else {}
        self._group: Attributes = {"messaging.consumer.group.name": group_id} if group_id else {}

    # Producer

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Start a span ``send {topic}``, and write its context into the headers."""
        # Leave invalid headers alone: the producer refuses them, with an error that says why.
        if not isinstance(record.headers, list | tuple):
            return record
        span = self._tracer.start_span(
            f"send {record.topic}",
            kind=SpanKind.PRODUCER,
            attributes={**_operation("send", "send", record.topic), **self._client},
        )
        # Inject the context even if the tracer is a no-op: its span then carries the current context.
        if span.get_span_context().is_valid:
            # A forwarded record may still contain the context from when it was first sent. Remove that.
            names = self._propagator.fields
            headers = [header for header in record.headers if not (isinstance(header, tuple) and header[0] in names)]
            self._propagator.inject(headers, trace.set_span_in_context(span), _SETTER)
            record = replace(record, headers=headers)
        if span.is_recording():
            if record.value is None:
                span.set_attribute("messaging.kafka.message.tombstone", True)
            else:
                span.set_attribute("messaging.message.body.size", len(record.value))
            record.context[self] = span
        return record

    def on_acknowledgement(
        self, record: OutgoingRecord, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        """End the span."""
        span: Span | None = record.context.pop(self, None)
        if span is None:
            return
        if metadata is not None:
            span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            if metadata.offset >= 0:
                span.set_attribute("messaging.kafka.offset", metadata.offset)
        if error is not None:
            _fail(span, error)
        span.end()

    # Consumer

    def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
        """Create a span ``poll {topic}`` with links to the records' contexts."""
        if self._receive_spans and records:
            first = records[0]
            span = self._tracer.start_span(
                f"poll {first.topic}",
                kind=SpanKind.CLIENT,
                attributes={
                    **_operation("poll", "receive", first.topic),
                    "messaging.destination.partition.id": str(first.partition),
                    "messaging.batch.message_count": len(records),
                    **self._client,
                    **self._group,
                },
            )
            # Add the links only now: if the span isn't sampled, don't read each record's headers.
            if span.is_recording():
                for link in self._links(records):
                    span.add_link(link.context)
            span.end()
        return records

    @contextmanager
    def process(self, records: Record | Sequence[Record]) -> Iterator[Span]:
        """Run the block in a span ``process {topic}``, for one record or several.

        An exception that leaves the block is recorded and raised unchanged.
        """
        batch = [records] if isinstance(records, Record) else list(records)
        if not batch:
            yield trace.INVALID_SPAN
            return
        attributes = {**self._processing(batch), **self._client, **self._group}
        topic = batch[0].topic
        parent = self._parent(batch[0]) if len(batch) == 1 else None
        started = monotonic()
        failure: Attributes = {}
        try:
            with self._tracer.start_as_current_span(
                f"process {topic}",
                context=parent,
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                links=list(self._links(batch)),
            ) as span:
                try:
                    yield span
                except BaseException as error:
                    failure = {"error.type": _error_type(error)}
                    span.set_attributes(failure)
                    raise
        finally:
            measured = {**_operation("process", "process", topic), **self._group, **failure}
            self._durations.record(monotonic() - started, measured)

    def _processing(self, batch: Sequence[Record]) -> Attributes:
        attributes = _operation("process", "process", batch[0].topic)
        partitions = {record.partition for record in batch}
        if len(partitions) == 1:
            attributes["messaging.destination.partition.id"] = str(batch[0].partition)
        if len(batch) == 1:
            attributes["messaging.kafka.offset"] = batch[0].offset
            if batch[0].value is None:
                attributes["messaging.kafka.message.tombstone"] = True
        else:
            attributes["messaging.batch.message_count"] = len(batch)
        return attributes

    def _parent(self, record: Record) -> Context | None:
        """Return the context that the span should continue, or None for the current context."""
        if not self._continue_trace or trace.get_current_span().get_span_context().is_valid:
            return None
        return self._propagator.extract(record.headers, getter=_GETTER)

    def _links(self, records: Sequence[Record]) -> Iterator[Link]:
        count = 0
        for record in records:
            if record.headers and count < MAX_LINKS:
                context = self._propagator.extract(record.headers, getter=_GETTER)
                found = trace.get_current_span(context).get_span_context()
                if found.is_valid:
                    count += 1
                    yield Link(found)


class Metrics(Hooks):
    """Provides the instruments ``messaging.client.*``, and some that are specific to this client (``aiokproto.*``).

    ::

        producer = Producer(bootstrap_servers=bootstrap, hooks=Metrics())

    Args:
        meter_provider: By default the global provider.
        client_id: The value of ``messaging.client.id``, which is left out if empty.
        group_id: The value of ``messaging.consumer.group.name``, which is left out if empty.
        partitions: Whether instruments that count records include the attribute ``messaging.destination.partition.id``.
    """

    def __init__(
        self,
        *,
        meter_provider: MeterProvider | None = None,
        client_id: str = "",
        group_id: str = "",
        partitions: bool = False,
    ) -> None:
        self._partitions = partitions
        self._client: Attributes = {"messaging.client.id": client_id} if client_id else {}
        self._group: Attributes = {"messaging.consumer.group.name": group_id} if group_id else {}
        meter = metrics.get_meter("aiokproto", __version__, meter_provider, SCHEMA_URL)

        def histogram(name: str, description: str) -> metrics.Histogram:
            return meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=_BOUNDARIES
            )

        self._operations = histogram(
            "messaging.client.operation.duration",
            "Duration of messaging operation initiated by a producer or consumer client.",
        )
        self._requests = histogram("aiokproto.request.duration", "From writing a request to its response.")
        self._throttles = histogram("aiokproto.throttle.duration", "Pauses that brokers' quotas impose.")
        self._rebalances = histogram("aiokproto.rebalance.duration", "Carrying out a change of the assignment.")
        self._transactions = histogram("aiokproto.transaction.duration", "From begin to end of a transaction.")
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        self._bytes = meter.create_counter("aiokproto.sent.bytes", unit="By", description="Batches as they were sent.")
        self._retries = meter.create_counter("aiokproto.batch.retries", unit="{batch}", description="Retried batches.")
        self._resets = meter.create_counter("aiokproto.offset.resets", unit="{reset}", description="Lost positions.")
        self._acknowledged = meter.create_counter(
            "aiokproto.acknowledged.messages", unit="{message}", description="Acknowledged records of share groups."
        )
        self._connections = meter.create_counter(
            "aiokproto.connections", unit="{connection}", description="Connections that were opened, or could not be."
        )
        self._run = _run_instruments(meter)

    def on_batch_written(self, event: BatchWritten) -> None:
        """Count an acknowledged batch."""
        attributes = self._records("send", "send", event.topic, event.partition)
        self._sent.add(event.records, attributes)
        self._bytes.add(event.size, attributes)
        self._operations.record(event.latency, attributes)

    def on_batch_failed(self, event: BatchFailed) -> None:
        """Count a batch that the client gave up on. If it was never sent, only its duration is recorded."""
        attributes = {
            **self._records("send", "send", event.topic, event.partition),
            "error.type": _error_type(event.error),
        }
        if event.attempts:
            self._sent.add(event.records, attributes)
        self._operations.record(event.latency, attributes)

    def on_batch_retried(self, event: BatchRetried) -> None:
        """Count a retry."""
        attributes = self._records("send", "send", event.topic, event.partition)
        self._retries.add(1, {**attributes, "error.type": _error_type(event.error)})

    def on_records_delivered(self, event: RecordsDelivered) -> None:
        """Count delivered records."""
        attributes = self._records("poll", "receive", event.topic, event.partition)
        self._consumed.add(event.records, {**attributes, **self._group})

    def on_committed(self, event: Committed) -> None:
        """Record a commit's duration."""
        attributes = {**_operation("commit", "settle"), **self._client, **self._group, **_error(event.error)}
        self._operations.record(event.latency, attributes)

    def on_response_received(self, event: ResponseReceived) -> None:
        """Record a request's latency."""
        self._requests.record(event.latency, {**self._broker(event.node, event.api), **_error(event.error)})

    def on_throttled(self, event: Throttled) -> None:
        """Record a throttle's duration."""
        self._throttles.record(event.pause, self._broker(event.node, event.api))

    def on_connection_opened(self, event: ConnectionOpened) -> None:
        """Count a connection."""
        self._connections.add(1, self._broker(event.node))

    def on_connection_failed(self, event: ConnectionFailed) -> None:
        """Count a failed connection."""
        self._connections.add(1, {**self._broker(event.node), **_error(event.error)})

    def on_rebalanced(self, event: Rebalanced) -> None:
        """Record a rebalance's duration."""
        self._rebalances.record(event.latency, {**self._client, **self._group, "aiokproto.rebalance.kind": event.kind})

    def on_acknowledged(self, event: Acknowledged) -> None:
        """Count acknowledged records of a share group."""
        attributes = self._records("ack", "settle", event.topic, event.partition)
        attributes |= {"aiokproto.acknowledgement": event.acknowledgement, **self._group, **_error(event.error)}
        self._acknowledged.add(event.last_offset - event.first_offset + 1, attributes)

    def on_offset_reset(self, event: OffsetReset) -> None:
        """Count a lost position."""
        self._resets.add(1, {**self._records("poll", "receive", event.topic, event.partition), **self._group})

    def on_run_progressed(self, event: RunProgressed) -> None:
        """Count the progress of ``run()``."""
        attributes = {**_operation("process", "process", event.topic), **self._client, **self._group}
        for instrument, change in zip(self._run, event[1:], strict=True):
            if change:
                instrument.add(change, attributes)

    def on_transaction_ended(self, event: TransactionEnded) -> None:
        """Record a transaction's duration."""
        self._transactions.record(event.latency, {**self._client, "aiokproto.transaction.committed": event.committed})

    def _records(self, name: str, kind: str, topic: str, partition: int) -> Attributes:
        attributes = {**_operation(name, kind, topic), **self._client}
        if self._partitions:
            attributes["messaging.destination.partition.id"] = str(partition)
        return attributes

    def _broker(self, node: int, api: str = "") -> Attributes:
        attributes: Attributes = {**self._client, "aiokproto.broker.id": node}
        return {**attributes, "aiokproto.api": api} if api else attributes


def _run_instruments(meter: metrics.Meter) -> Sequence[metrics.Counter | metrics.UpDownCounter]:
    """Return the instruments of ``run()``, in the order of the fields of :class:`RunProgressed`."""

    def counter(name: str, unit: str, description: str) -> metrics.Counter:
        return meter.create_counter(f"aiokproto.run.{name}", unit=unit, description=description)

    def level(name: str, unit: str, description: str) -> metrics.UpDownCounter:
        return meter.create_up_down_counter(f"aiokproto.run.{name}", unit=unit, description=description)

    return (
        counter("processed", "{message}", "Records that the handler has finished."),
        counter("retried", "{call}", "Failed calls that were made again, or records released."),
        counter("dead_lettered", "{message}", "Records given up: dead letters or rejected."),
        counter("failed", "{call}", "Calls of the handler that raised or took too long."),
        level("pending", "{message}", "Records that were taken and are not finished."),
        level("running", "{call}", "Calls of the handler that run."),
    )


def _operation(name: str, kind: str, topic: str = "") -> Attributes:
    attributes: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    return {**attributes, "messaging.destination.name": topic} if topic else attributes


def _error(error: KafkaError | None) -> Mapping[str, str]:
    return {} if error is None else {"error.type": _error_type(error)}


def _error_type(error: BaseException) -> str:
    """Return the error code's name, or otherwise the class's, to limit the number of different values."""
    return error.code.name if isinstance(error, BrokerError) else type(error).__qualname__


def _fail(span: Span, error: KafkaError) -> None:
    span.set_attribute("error.type", _error_type(error))
    span.set_status(StatusCode.ERROR, str(error))
