"""The options for reading batches and streams, with the names of Spark's own Kafka connector. Pure.

Each option of the connector and of the Java clients is honoured, accepted without effect, or refused; any other name is
an error. :data:`READING` lists them all. :mod:`aiokproto.spark.connection` defines the client's options, whose names
start with ``kafka.``, and :mod:`aiokproto.spark.payloads.options` defines the options for JSON and Avro.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.records.compression import MAX_DECOMPRESSED
from aiokproto.records.record import MAX_RECORD
from aiokproto.spark.connection import CLIENT, PROVIDER_OPTIONS, connection_options
from aiokproto.spark.credentials import check_providers
from aiokproto.spark.offsets import EARLIEST, LATEST, Bound, parse_assignment, parse_offsets
from aiokproto.spark.option_table import (
    INT32_MAX,
    Option,
    OptionTable,
    boolean,
    duration,
    integer,
    names,
    nearest,
    one_of,
    pattern,
    topic_ids,
    topic_name,
    topics,
)
from aiokproto.spark.payloads.options import PAYLOAD_OPTIONS, Payload, parse_payloads

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""All columns, in their default order; ``headers`` only with ``includeHeaders``."""

TOPIC_IDS = "aiokproto.topicIds"
"""Internal option: the expected topic ids, as JSON. A topic that was deleted and created again after planning has a
different id, so a task never reads it by mistake."""

OFFSET_OPTIONS = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
)
"""Options that select the topics, partitions and offsets to read."""

_ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")


@dataclass(frozen=True)
class FetchSettings:
    """Settings of the Fetch requests that tasks send.

    Attributes:
        read_committed: Skip records of aborted and open transactions (``kafka.isolation.level``, false).
        max_wait_ms: Milliseconds that a broker waits for ``min_bytes`` (``kafka.fetch.max.wait.ms``, 500).
        min_bytes: ``kafka.fetch.min.bytes``, 1.
        max_bytes: Maximum bytes in a response; only a batch that is larger itself exceeds it. It's the smaller of
            ``kafka.max.partition.fetch.bytes`` and ``kafka.fetch.max.bytes``, 4 MiB.
        check_crcs: Verify the checksums (``kafka.check.crcs``, true).
        max_decompressed: Maximum bytes that a batch decompresses to (``kafka.max.decompressed.bytes``, 1 GiB).
        max_record: Maximum bytes of a record, counting 192 for each header (``kafka.max.record.bytes``, 50 MiB).
    """

    read_committed: bool = False
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 4 << 20
    check_crcs: bool = True
    max_decompressed: int = MAX_DECOMPRESSED
    max_record: int = MAX_RECORD

    @property
    def isolation_level(self) -> int:
        """The isolation level as requests encode it."""
        return int(self.read_committed)


_MILLISECONDS = integer(0, of="milliseconds since the epoch")

_HONOURED: Mapping[str, Option] = {
    "subscribe": Option(
        topics, "Topics, separated by commas. One of this, ``subscribePattern`` and ``assign`` is required."
    ),
    "subscribePattern": Option(
        pattern,
        "A Python regular expression that matches a part of the topics' names: ``^flights-`` selects names with this "
        "prefix.",
    ),
    "assign": Option(partial(parse_assignment, "assign"), 'Partitions, as JSON: ``{"topic": [0, 1]}``.'),
    # Their valid values differ between batch and stream, so they stay text until the read is planned.
    "startingOffsets": Option(
        str.strip,
        'Where to start: ``earliest``, or ``{"topic": {"0": 23, "1": -2}}``, where -2 is the earliest and, in a '
        "stream, -1 the latest offset. Name every partition of the topics, and no other. A stream starts at "
        "``latest`` by default; later its checkpoint decides.",
        "earliest",
    ),
    "endingOffsets": Option(
        str.strip, "Where a batch ends: ``latest``, or JSON, where -1 is the latest offset.", "latest"
    ),
    "startingTimestamp": Option(
        _MILLISECONDS,
        "The time (ms) of the first records, for all partitions. It takes precedence over "
        "``startingOffsetsByTimestamp`` and ``startingOffsets``.",
    ),
    "endingTimestamp": Option(
        _MILLISECONDS,
        "The time (ms) at which a batch ends, for all partitions. It takes precedence over "
        "``endingOffsetsByTimestamp`` and ``endingOffsets``.",
    ),
    "startingOffsetsByTimestamp": Option(
        partial(parse_offsets, "startingOffsetsByTimestamp", allowed=()),
        "As ``startingTimestamp``, with a time for each partition, as JSON. It takes precedence over "
        "``startingOffsets``.",
    ),
    "endingOffsetsByTimestamp": Option(
        partial(parse_offsets, "endingOffsetsByTimestamp", allowed=()),
        "As ``endingTimestamp``, with a time for each partition, as JSON. It takes precedence over ``endingOffsets``.",
    ),
    "startingOffsetsByTimestampStrategy": Option(
        one_of("error", "latest"),
        "What a partition without a record at or after its starting time is: an ``error``, or read from its ``latest`` "
        "offset on.",
        "error",
    ),
    "minPartitions": Option(
        integer(1, INT32_MAX),
        "Long ranges are divided into about this many tasks. By default each partition is one task.",
    ),
    "maxRecordsPerPartition": Option(integer(1), "The most offsets in one task."),
    "includeHeaders": Option(boolean, "Whether the result has the column ``headers``.", "false"),
    "columns": Option(
        names, "The columns of the result, such as ``value,offset``: others aren't created. By default there are all."
    ),
    "filterPushdown": Option(
        boolean,
        "Whether the filters of a query decide what is read. By default what ``register(spark, pushdown=…)`` says, or "
        "``false``.",
    ),
    "deadLetterTopic": Option(topic_name, "The topic that malformed records are written to. Without one they aren't."),
    "failOnDataLoss": Option(
        boolean, "Whether records that were deleted before they were read are an error, or a warning.", "true"
    ),
    "maxOffsetsPerTrigger": Option(
        integer(1),
        "The most offsets of a stream's batch, divided among partitions in proportion to what they have. From PySpark "
        "4.2 on.",
    ),
    "minOffsetsPerTrigger": Option(
        integer(1), "A stream's batch waits for so many offsets, at most for ``maxTriggerDelay``. From PySpark 4.2 on."
    ),
    "maxTriggerDelay": Option(
        duration, "How long a stream's batch waits for ``minOffsetsPerTrigger``: ``90s``, ``15m``, ``1h``.", "15m"
    ),
    "kafkaConsumer.pollTimeoutMs": Option(
        integer(1), "How long a task waits for the next records of its range (ms).", "120000"
    ),
    "fetchOffset.numRetries": Option(integer(0, INT32_MAX), "How often a request of offsets is retried.", "3"),
    "fetchOffset.retryIntervalMs": Option(integer(-1), "How long to wait before such a retry (ms).", "1000"),
    "kafka.isolation.level": Option(
        one_of("read_uncommitted", "read_committed"),
        "``read_committed`` skips records of aborted transactions, and ends at the start of the oldest open one.",
        "read_uncommitted",
    ),
    "kafka.max.partition.fetch.bytes": Option(
        integer(0, INT32_MAX),
        "The most bytes in a response, which only a single larger batch exceeds.",
        str(FetchSettings.max_bytes),
    ),
    "kafka.fetch.max.bytes": Option(
        integer(0, INT32_MAX),
        "The most bytes in a response, too: the smaller one applies. By default that is "
        "``kafka.max.partition.fetch.bytes``.",
    ),
    "kafka.fetch.max.wait.ms": Option(
        integer(0, INT32_MAX),
        "How long a broker waits for ``kafka.fetch.min.bytes`` (ms).",
        str(FetchSettings.max_wait_ms),
    ),
    "kafka.fetch.min.bytes": Option(
        integer(0, INT32_MAX), "The bytes that a broker waits for.", str(FetchSettings.min_bytes)
    ),
    "kafka.check.crcs": Option(boolean, "Whether the checksums of record batches are verified.", "true"),
    "kafka.max.decompressed.bytes": Option(
        integer(1), "The most bytes that a record batch may decompress to.", str(MAX_DECOMPRESSED)
    ),
    "kafka.max.record.bytes": Option(
        integer(1), "The most bytes that one record may take, with 192 for each header.", str(MAX_RECORD)
    ),
    **PAYLOAD_OPTIONS,
    **CLIENT,
    **PROVIDER_OPTIONS,
}

_GROUP = "no consumer group is joined, and no offset committed"
_POLL = "belongs to the poll loop of the Java client"
_BUFFER = "the operating system chooses the sizes of socket buffers"
_METRICS = "belongs to the metrics of the Java client"
_REBOOTSTRAP = "the client connects to the bootstrap servers again whenever no broker responds"
FOR_WRITING = "is for writing"

_WITHOUT_EFFECT = {
    **dict.fromkeys(
        (
            "topic",
            "kafka.acks",
            "kafka.batch.size",
            "kafka.buffer.memory",
            "kafka.buffer.memory.allocation.strategy",
            "kafka.compression.gzip.level",
            "kafka.compression.lz4.level",
            "kafka.compression.type",
            "kafka.compression.zstd.level",
            "kafka.delivery.timeout.ms",
            "kafka.enable.idempotence",
            "kafka.key.serializer",
            "kafka.linger.ms",
            "kafka.max.block.ms",
            "kafka.max.in.flight.requests.per.connection",
            "kafka.max.request.size",
            "kafka.partitioner.adaptive.partitioning.enable",
            "kafka.partitioner.availability.timeout.ms",
            "kafka.partitioner.class",
            "kafka.partitioner.ignore.keys",
            "kafka.partitioner.rack.aware",
            "kafka.transaction.timeout.ms",
            "kafka.transaction.two.phase.commit.enable",
            "kafka.transactional.id",
            "kafka.value.serializer",
        ),
        FOR_WRITING,
    ),
    "path": "is the argument of load(); Kafka has topics",
    "groupIdPrefix": _GROUP,
    "kafka.auto.commit.interval.ms": _GROUP,
    "kafka.group.id": _GROUP,
    "kafka.group.instance.id": _GROUP,
    "kafka.group.protocol": _GROUP,
    "kafka.group.remote.assignor": _GROUP,
    "kafka.heartbeat.interval.ms": _GROUP,
    "kafka.internal.leave.group.on.close": _GROUP,
    "kafka.internal.throw.on.fetch.stable.offset.unsupported": _GROUP,
    "kafka.max.poll.interval.ms": _GROUP,
    "kafka.partition.assignment.strategy": _GROUP,
    "kafka.session.timeout.ms": _GROUP,
    "kafka.share.acknowledgement.mode": _GROUP,
    "kafka.share.acquire.mode": _GROUP,
    "kafka.max.poll.records": _POLL,
    "kafka.receive.buffer.bytes": _BUFFER,
    "kafka.send.buffer.bytes": _BUFFER,
    "kafka.auto.include.jmx.reporter": _METRICS,
    "kafka.enable.metrics.push": _METRICS,
    "kafka.metric.reporters": _METRICS,
    "kafka.metrics.num.samples": _METRICS,
    "kafka.metrics.recording.level": _METRICS,
    "kafka.metrics.sample.window.ms": _METRICS,
    "kafka.allow.auto.create.topics": "reading never creates a topic",
    "kafka.client.dns.lookup": "every address of a host is tried",
    "kafka.client.rack": "records are fetched from leaders",
    "kafka.exclude.internal.topics": "a pattern never matches Kafka's own topics",
    "kafka.metadata.recovery.rebootstrap.trigger.ms": _REBOOTSTRAP,
    "kafka.metadata.recovery.strategy": _REBOOTSTRAP,
    "kafka.retries": "a request that can be retried is retried until its deadline",
    "kafka.socket.connection.setup.timeout.max.ms": "kafka.socket.connection.setup.timeout.ms is the maximum",
}
"""These options are accepted so that jobs which set them keep working. No value of them would change the rows, or make
reading less secure."""

_JAVA_CLASS = "Java classes cannot be used"
_BROKER_VALIDATES = "leave it out: brokers validate the token"
_TICKETS = "leave it out: with kafka.sasl.kerberos.keytab the client gets tickets, and new ones before they expire"
_PROVIDERS = "leave it out: OpenSSL does what Java has providers for"
_RETRIEVER = "is for another login module; use the options kafka.sasl.oauthbearer.… or aiokproto.sasl.token"

_REFUSED = {
    # Spark adds this option to CREATE TABLE.
    "provider": "Spark does not pass the options of a catalog table to a Python data source; "
    "use CREATE TEMPORARY VIEW … USING aiokproto OPTIONS (…)",
    "kafka.auto.offset.reset": "startingOffsets defines where to start",
    "kafka.bootstrap.controllers": "controllers have no records; name brokers in kafka.bootstrap.servers",
    "kafka.enable.auto.commit": "Spark, or the output, stores the offsets; they are never committed to a group",
    "kafka.interceptor.classes": _JAVA_CLASS,
    "kafka.key.deserializer": "keys are read as bytes; cast or decode the column",
    "kafka.value.deserializer": "values are read as bytes; cast or decode the column",
    "kafka.security.providers": _PROVIDERS,
    "kafka.sasl.client.callback.handler.class": _JAVA_CLASS,
    "kafka.sasl.login.callback.handler.class": f"{_JAVA_CLASS}: {_RETRIEVER}",
    "kafka.sasl.login.class": _JAVA_CLASS,
    "kafka.sasl.kerberos.kinit.cmd": _TICKETS,
    "kafka.sasl.kerberos.min.time.before.relogin": _TICKETS,
    "kafka.sasl.kerberos.ticket.renew.jitter": _TICKETS,
    "kafka.sasl.kerberos.ticket.renew.window.factor": _TICKETS,
    "kafka.sasl.oauthbearer.allow.unverified.audience": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.allow.unverified.issuer": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.clock.skew.seconds": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.expected.audience": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.expected.issuer": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.jwks.endpoint.": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.jwt.validator.class": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.scope.claim.name": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.sub.claim.name": _BROKER_VALIDATES,
    "kafka.ssl.engine.factory.class": _JAVA_CLASS,
    "kafka.ssl.keymanager.algorithm": _PROVIDERS,
    "kafka.ssl.protocol": "use kafka.ssl.enabled.protocols",
    "kafka.ssl.provider": _PROVIDERS,
    "kafka.ssl.secure.random.implementation": _PROVIDERS,
    "kafka.ssl.trustmanager.algorithm": _PROVIDERS,
}
"""These options are refused because, if they were ignored, the job would read different rows than its author expects,
or read them less securely. TLS and SASL options that the client doesn't have are refused even if the security protocol
uses neither TLS nor SASL. The official connector ignores them in that case, and its users expect a protection that
doesn't exist."""

READING = OptionTable(_HONOURED, _WITHOUT_EFFECT, _REFUSED, {TOPIC_IDS: topic_ids})
"""The options for reading batches and streams."""


@dataclass(frozen=True)
class Selection:
    """The partitions to read: of all ``topics``, in ``assignment``, or of all topics that match ``pattern``."""

    topics: tuple[str, ...] = ()
    assignment: Mapping[str, tuple[int, ...]] | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class ReadOptions:
    """The options of a batch read, parsed.

    Attributes:
        connection: Options of the client, under its own names.
        selection: The partitions to read.
        starting: Start of the ranges; default: the start of the log.
        ending: End of the ranges; default: the end of the log when the read is planned.
        unmatched_is_latest: Whether a partition without a record at or after the starting timestamp has nothing to
            read; otherwise it's an error (``startingOffsetsByTimestampStrategy``).
        fetch: Settings of Fetch requests.
        min_partitions: The approximate minimum number of tasks; None for one task per partition.
        max_records_per_partition: Maximum number of offsets in a task.
        columns: The columns of the result, in order.
        fail_on_data_loss: Whether missing records are an error (default) or a warning.
        poll_timeout: Seconds that a task waits for more records of its range (``kafkaConsumer.pollTimeoutMs``, 120 s).
        offset_retries: Number of retries when requesting offsets (``fetchOffset.numRetries``, 3).
        offset_retry_interval: Seconds between retries (``fetchOffset.retryIntervalMs``, 1 s).
        topic_ids: The expected topic ids, in hex.
        payloads: The formats of keys and values that aren't raw.
        dead_letter_topic: The topic that malformed records are written to; None if they aren't written.
    """

    connection: Mapping[str, Any]
    selection: Selection
    starting: Bound
    ending: Bound
    unmatched_is_latest: bool
    fetch: FetchSettings
    min_partitions: int | None
    max_records_per_partition: int | None
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    poll_timeout: float
    offset_retries: int
    offset_retry_interval: float
    topic_ids: Mapping[str, str]
    payloads: tuple[Payload, ...] = ()
    dead_letter_topic: str | None = None

    @property
    def include_headers(self) -> bool:
        """Whether the result has the column ``headers``."""
        return "headers" in self.columns


@dataclass(frozen=True)
class StreamOptions:
    """The options of a stream, parsed.

    Attributes:
        read: The options that a batch read has, too. ``starting`` applies to the first batch; ``ending`` is the end of
            the log.
        max_offsets: The maximum number of offsets in a batch (``maxOffsetsPerTrigger``); None for no maximum.
        min_offsets: The minimum number of offsets in a batch (``minOffsetsPerTrigger``); None for no minimum.
        max_delay: How long a batch waits for the minimum (``maxTriggerDelay``, 15 minutes), in seconds.
    """

    read: ReadOptions
    max_offsets: int | None
    min_offsets: int | None
    max_delay: float


def parse_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that have an effect, by their official names, with their parsed values.

    The read may be a batch or a stream, so a missing option isn't an error here.

    Raises:
        ConfigurationError: An option is unknown or refused, or has an invalid value.
    """
    given = READING.parse(options)
    check_providers(given)
    return given


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse and validate the options of a batch read.

    Raises:
        ConfigurationError: An option is unknown, refused, missing or contradicts another, or has an invalid value.
    """
    given = parse_options(options)
    starting, ending = _batch_start(given), _batch_end(given)
    _check_order(starting, ending)
    return _read_options(given, starting, ending)


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Parse and validate the options of a stream: a batch's options, except the end, and limits for its batches.

    Raises:
        ConfigurationError: An option is unknown, refused, missing or contradicts another, or has an invalid value.
    """
    given = parse_options(options)
    if ending := next((name for name in _ENDING if name in given), None):
        raise ConfigurationError(f"{ending} is for a batch: a stream has no end")
    least, most = given.get("minOffsetsPerTrigger"), given.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigurationError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    return StreamOptions(
        read=_read_options(given, _stream_start(given), Bound("the end of the log", LATEST)),
        max_offsets=most,
        min_offsets=least,
        max_delay=READING.value(given, "maxTriggerDelay"),
    )


def _read_options(given: Mapping[str, Any], starting: Bound, ending: Bound) -> ReadOptions:
    """Return the options of a read within these bounds; ``given`` comes from :func:`parse_options`.

    Raises:
        ConfigurationError: An option is missing or contradicts another.
    """
    return ReadOptions(
        connection=connection_options(given),
        fetch=_fetch_settings(given),
        selection=_selection(given),
        starting=starting,
        ending=ending,
        unmatched_is_latest=READING.value(given, "startingOffsetsByTimestampStrategy") == "latest",
        min_partitions=given.get("minPartitions"),
        max_records_per_partition=given.get("maxRecordsPerPartition"),
        columns=chosen_columns(given),
        fail_on_data_loss=READING.value(given, "failOnDataLoss"),
        poll_timeout=READING.value(given, "kafkaConsumer.pollTimeoutMs") / 1000,
        offset_retries=READING.value(given, "fetchOffset.numRetries"),
        offset_retry_interval=max(READING.value(given, "fetchOffset.retryIntervalMs"), 0) / 1000,
        topic_ids=given.get(TOPIC_IDS, {}),
        payloads=payloads_of(given),
        dead_letter_topic=_dead_letter_topic(given),
    )


def _dead_letter_topic(given: Mapping[str, Any]) -> str | None:
    name: str | None = given.get("deadLetterTopic")
    if name is None:
        return None
    selection = _selection(given)
    if name in (*selection.topics, *(selection.assignment or ())) or (
        selection.pattern is not None and re.search(selection.pattern, name)
    ):
        raise ConfigurationError(f"deadLetterTopic={name} is read, too: its letters would become letters again")
    if all(payload.mode == "failfast" for payload in payloads_of(given)):
        raise ConfigurationError(
            "deadLetterTopic has no effect: no column has a format with mode permissive or dropmalformed"
        )
    return name


def payloads_of(given: Mapping[str, Any]) -> tuple[Payload, ...]:
    """Return the formats of the chosen columns that aren't raw; ``given`` comes from :func:`parse_options`.

    Raises:
        ConfigurationError: An option of a format is missing, or has no effect.
    """
    topics = given.get("subscribe") or given.get("assign") or ()
    columns = chosen_columns(given)
    return tuple(payload for payload in parse_payloads(given, tuple(topics)) if payload.column in columns)


def parse_connection(options: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the client's options, under its own names, from data source options that start with ``kafka.``.

    Raises:
        ConfigurationError: An option is unknown or refused, isn't one of the client, or has an invalid value.
    """
    given = parse_options({name: str(value) for name, value in options.items()})
    if other := sorted(given.keys() - CLIENT.keys() - PROVIDER_OPTIONS.keys()):
        raise ConfigurationError(f"options: {other[0]} is no option of the connection")
    return connection_options(given)


def _fetch_settings(given: Mapping[str, Any]) -> FetchSettings:
    partition_bytes = READING.value(given, "kafka.max.partition.fetch.bytes")
    return FetchSettings(
        read_committed=READING.value(given, "kafka.isolation.level") == "read_committed",
        max_wait_ms=READING.value(given, "kafka.fetch.max.wait.ms"),
        min_bytes=READING.value(given, "kafka.fetch.min.bytes"),
        # A broker sends one batch per response for 0, as for 1.
        max_bytes=max(min(partition_bytes, given.get("kafka.fetch.max.bytes", partition_bytes)), 1),
        check_crcs=READING.value(given, "kafka.check.crcs"),
        max_decompressed=READING.value(given, "kafka.max.decompressed.bytes"),
        max_record=READING.value(given, "kafka.max.record.bytes"),
    )


def _selection(given: Mapping[str, Any]) -> Selection:
    chosen = [name for name in ("subscribe", "assign", "subscribePattern") if name in given]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none of them"
        raise ConfigurationError(f"exactly one of subscribe, assign and subscribePattern is required, got {found}")
    topics = tuple(dict.fromkeys(given.get("subscribe", ())))
    return Selection(topics, given.get("assign"), given.get("subscribePattern"))


def _batch_start(given: Mapping[str, Any]) -> Bound:
    if found := _timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp"):
        return found
    name = "startingOffsets"
    text = READING.value(given, name)
    if text.lower() == "earliest":
        return Bound(name, EARLIEST)
    if text.lower() == "latest":
        raise ConfigurationError(f"{name}=latest reads nothing in a batch: only a stream can start at the end")
    return Bound(name, each=parse_offsets(name, text, allowed=(EARLIEST,), words=("earliest",)))


def _batch_end(given: Mapping[str, Any]) -> Bound:
    if found := _timestamps(given, "endingTimestamp", "endingOffsetsByTimestamp"):
        return found
    name = "endingOffsets"
    text = READING.value(given, name)
    if text.lower() == "latest":
        return Bound(name, LATEST)
    if text.lower() == "earliest":
        raise ConfigurationError(f"{name}=earliest reads nothing: a range cannot end where the log starts")
    return Bound(name, each=parse_offsets(name, text, allowed=(LATEST,), words=("latest",)))


def _stream_start(given: Mapping[str, Any]) -> Bound:
    if found := _timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp"):
        return found
    name = "startingOffsets"
    text = given.get(name, "latest")
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return Bound(name, words[text.lower()])
    return Bound(name, each=parse_offsets(name, text, allowed=(EARLIEST, LATEST), words=tuple(words)))


def _timestamps(given: Mapping[str, Any], every: str, each: str) -> Bound | None:
    """Return the bound that timestamps define, or None if none are set; ``given`` comes from :func:`parse_options`.

    As in the official connector, a timestamp for all partitions takes precedence over timestamps for each, and both
    take precedence over offsets.
    """
    if every in given:
        return Bound(every, given[every], by_timestamp=True)
    if each in given:
        return Bound(each, each=given[each], by_timestamp=True)
    return None


def _check_order(starting: Bound, ending: Bound) -> None:
    if starting.by_timestamp != ending.by_timestamp:
        return
    if starting.by_timestamp and starting.every is not None and ending.every is not None:
        if starting.every > ending.every:
            raise ConfigurationError(f"{ending.option}={ending.every} is before {starting.option}={starting.every}")
        return
    for partition in (starting.each or {}).keys() & (ending.each or {}).keys():
        if starting.of(partition) > ending.of(partition) >= 0:
            raise ConfigurationError(
                f"{partition} ends ({ending.option}: {ending.of(partition)}) "
                f"before it starts ({starting.option}: {starting.of(partition)})"
            )


def chosen_columns(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of the result, in order; ``given`` comes from :func:`parse_options`.

    Raises:
        ConfigurationError: A column doesn't exist, or is named twice.
    """
    with_headers = READING.value(given, "includeHeaders")
    valid = COLUMNS if with_headers else COLUMNS[:-1]
    spelling = {name.lower(): name for name in valid}
    chosen = []
    for name in given.get("columns", valid):
        if name.lower() == "headers" and not with_headers:
            raise ConfigurationError("columns: headers requires includeHeaders=true")
        if name.lower() not in spelling:
            raise ConfigurationError(f"columns: {name!r} is not a column{nearest(name.lower(), valid)}")
        chosen.append(spelling[name.lower()])
    if len(set(chosen)) < len(chosen):
        raise ConfigurationError(f"columns: a column is named twice in {', '.join(chosen)}")
    return tuple(chosen)
