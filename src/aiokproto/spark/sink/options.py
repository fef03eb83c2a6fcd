"""The options of the sink, with the names of Spark's own Kafka connector. Pure, but for the id of a stream's query.

As for reading, each option of the connector and of the Java clients is honoured, accepted without effect, or refused;
any other name is an error. Options for reading have no effect here, so a job can use one set for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from aiokproto.errors import ConfigurationError
from aiokproto.producer import Producer
from aiokproto.spark.connection import CLIENT, PROVIDER_OPTIONS, connection_options, with_option_names
from aiokproto.spark.credentials import check_providers, checkable
from aiokproto.spark.option_table import INT32_MAX, Option, OptionTable, Parser, boolean, integer, one_of, topic_name
from aiokproto.spark.options import FOR_WRITING, READING
from aiokproto.spark.payloads.options import PAYLOAD_OPTIONS, Payload, parse_payloads
from aiokproto.spark.sink.checkpoint import OPTION as CHECKPOINT
from aiokproto.spark.sink.checkpoint import last_offsets, prefix_of, query_id

BATCH_SIZE = 512 * 1024
"""Default of ``kafka.batch.size``. A task has all its rows at once, so larger batches don't add latency, and give
brokers fewer batches to check and store."""

BUFFER_MEMORY = 32 * 1024 * 1024
"""Default of ``kafka.buffer.memory``, as in Java."""

TRANSACTION_TIMEOUT_MS = 900_000
"""Default of ``kafka.transaction.timeout.ms``: the maximum that brokers allow by default. A transaction is open
until all tasks of a batch have ended."""

STATE_TOPIC = "aiokproto-spark-state"
"""Default of ``stateTopic``."""

_ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def _partitioner(text: str) -> str:
    if text.strip() != _ROUND_ROBIN:
        raise ValueError(
            f"Java classes cannot be used, except {_ROUND_ROBIN}; compute the column partition in their place"
        )
    return "round_robin"


def _name(text: str) -> str:
    if not 1 <= len(text.strip()) <= 200:
        raise ValueError("must have 1 to 200 characters")
    return text.strip()


_integer = partial(integer, most=INT32_MAX)


class _ProducerOption(NamedTuple):
    """An option of the producer, and the producer's own name for it."""

    own: str
    option: Option


def _producer_option(own: str, parse: Parser, meaning: str, default: str | None = None) -> _ProducerOption:
    return _ProducerOption(own, Option(parse, meaning, default))


_AS_IN_JAVA = "As in Java."

_PRODUCER: Mapping[str, _ProducerOption] = {
    "kafka.acks": _producer_option(
        "acks",
        one_of("all", "-1", "0", "1"),
        "The acknowledgements that a batch needs: ``all``, ``1``, or ``0``, with which failures aren't seen.",
        "all",
    ),
    "kafka.batch.size": _producer_option(
        "batch_size", _integer(0), "The size (bytes) at which a batch is sent. In Java it is 16 KiB.", str(BATCH_SIZE)
    ),
    "kafka.buffer.memory": _producer_option(
        "buffer_memory", integer(0), "The most bytes of records that wait for brokers.", str(BUFFER_MEMORY)
    ),
    "kafka.client.rack": _producer_option("client_rack", str, "The rack, for ``kafka.partitioner.rack.aware``."),
    "kafka.compression.type": _producer_option(
        "compression_type",
        one_of("none", "gzip", "snappy", "lz4", "zstd"),
        "``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``.",
        "none",
    ),
    "kafka.delivery.timeout.ms": _producer_option(
        "delivery_timeout_ms",
        _integer(1),
        "How long (ms) a row may take until it is acknowledged, with all retries.",
        "120000",
    ),
    "kafka.enable.idempotence": _producer_option(
        "enable_idempotence",
        boolean,
        "Whether retries neither repeat nor reorder records. By default ``true``, if ``kafka.acks`` and "
        "``kafka.max.in.flight.requests.per.connection`` allow it.",
    ),
    "kafka.linger.ms": _producer_option("linger_ms", integer(0), "How long (ms) a batch waits for more rows.", "5"),
    "kafka.max.block.ms": _producer_option(
        "max_block_ms", integer(0), "How long (ms) a row waits for its topic's metadata and for free memory.", "60000"
    ),
    "kafka.max.in.flight.requests.per.connection": _producer_option(
        "max_in_flight_requests_per_connection", _integer(1), "The most requests that one broker has at a time.", "5"
    ),
    "kafka.max.request.size": _producer_option(
        "max_request_size", _integer(0), "The most bytes of one record.", str(1 << 20)
    ),
    "kafka.partitioner.adaptive.partitioning.enable": _producer_option(
        "partitioner_adaptive_partitioning_enable", boolean, _AS_IN_JAVA, "true"
    ),
    "kafka.partitioner.availability.timeout.ms": _producer_option(
        "partitioner_availability_timeout_ms", integer(0), _AS_IN_JAVA, "0"
    ),
    "kafka.partitioner.class": _producer_option(
        "partitioner",
        _partitioner,
        "Java's ``RoundRobinPartitioner`` only. In place of others, compute the column ``partition``.",
    ),
    "kafka.partitioner.ignore.keys": _producer_option("partitioner_ignore_keys", boolean, _AS_IN_JAVA, "false"),
    "kafka.partitioner.rack.aware": _producer_option("partitioner_rack_aware", boolean, _AS_IN_JAVA, "false"),
}
"""Options of the producer."""

_LEVELS: Mapping[str, Option] = {
    f"kafka.compression.{codec}.level": Option(
        integer(-INT32_MAX, INT32_MAX), f"The level of ``{codec}``, if it is the codec. By default the codec's own."
    )
    for codec in ("gzip", "lz4", "zstd")
}

_EXACTLY_ONCE: Mapping[str, Option] = {
    "transactionalIdPrefix": Option(
        _name,
        "A name that stays the same when the query or job is restarted, and that no other one uses. Required for "
        "batches. By default a stream's checkpoint names it.",
    ),
    "stateTopic": Option(topic_name, "The topic with the state; queries can share it.", STATE_TOPIC),
    "jobId": Option(
        _name,
        "Batches only, also in ``foreachBatch``: a batch with an id that was committed writes nothing, so a job that "
        "is repeated writes once.",
    ),
    "jobVersion": Option(
        integer(0),
        "With ``jobId``, a number that increases from batch to batch: the id then stays the same, and a version that "
        "was committed writes nothing. An earlier one is refused.",
    ),
    "onTransactionLoss": Option(
        one_of("fail", "rewrite", "skip"),
        "What becomes of a batch whose transactions were lost: ``fail``, ``rewrite`` or ``skip``.",
        "fail",
    ),
    "kafka.transaction.timeout.ms": Option(
        _integer(1),
        "The longest time (ms) from the first row of a batch to its commit; at most the brokers' "
        "``transaction.max.timeout.ms``.",
        str(TRANSACTION_TIMEOUT_MS),
    ),
    "kafka.transaction.two.phase.commit.enable": Option(
        boolean,
        "``true`` requires two-phase commit (KIP-939), ``false`` never uses it. By default it is used if brokers grant "
        "it.",
    ),
}
"""Options that need ``semantics=exactly_once``."""

_HONOURED: Mapping[str, Option] = {
    "topic": Option(topic_name, "The topic of all rows. Without it the column ``topic`` is required."),
    "semantics": Option(
        one_of("at_least_once", "exactly_once"), "``at_least_once`` or ``exactly_once``.", "at_least_once"
    ),
    **_EXACTLY_ONCE,
    **{name: entry.option for name, entry in _PRODUCER.items()},
    **_LEVELS,
    **PAYLOAD_OPTIONS,
    **CLIENT,
    **PROVIDER_OPTIONS,
}

_TRANSACTIONAL_ID = "each task has its own; with semantics=exactly_once they begin with transactionalIdPrefix"
_SERIALIZER = "keys and values are written as the columns have them"

# Reading refuses these because they define what is read, and how. Here they have no effect.
_REFUSED_BY_READING_ALONE = (
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
)

_REFUSED = {
    **{name: reason for name, reason in READING.refused.items() if name not in _REFUSED_BY_READING_ALONE},
    "kafka.key.serializer": _SERIALIZER,
    "kafka.value.serializer": _SERIALIZER,
    "kafka.transactional.id": _TRANSACTIONAL_ID,
}

_FOR_READING = "is for reading"

_WITHOUT_EFFECT = {
    "queryName": "Spark itself reads it",
    "kafka.buffer.memory.allocation.strategy": "belongs to the memory of the Java producer",
    **{
        name: reason
        for name, reason in {
            **dict.fromkeys((*READING.honoured, *_REFUSED_BY_READING_ALONE), _FOR_READING),
            **READING.without_effect,
        }.items()
        if name not in _HONOURED and name not in _REFUSED and reason != FOR_WRITING
    },
}

WRITING = OptionTable(_HONOURED, _WITHOUT_EFFECT, _REFUSED, {CHECKPOINT: str})
"""The options for writing batches and streams."""


@dataclass(frozen=True)
class TransactionOptions:
    """The options of a write with ``semantics=exactly_once``.

    Attributes:
        connection: Options of a client, under its own names.
        prefix: The prefix of all transactional ids.
        state_topic: The topic with the state.
        timeout_ms: The transaction timeout, without two-phase commit.
        two_phase: Whether to use two-phase commit; None for "if the brokers grant it".
        on_loss: What to do about a batch that is partly lost: "fail", "rewrite" or "skip".
        run: The id of the query or job; None if the job has none, or the id of the query is unknown.
        job_version: The number of a job's batch, which increases from batch to batch.
        offsets: A digest that identifies the records of a stream's batch: see
            :func:`aiokproto.spark.sink.checkpoint.last_offsets`.
    """

    connection: Mapping[str, Any]
    prefix: str
    state_topic: str = STATE_TOPIC
    timeout_ms: int = TRANSACTION_TIMEOUT_MS
    two_phase: bool | None = None
    on_loss: str = "fail"
    run: str | None = None
    job_version: int | None = None
    offsets: str | None = None


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, parsed.

    Attributes:
        producer: Options of the producer, under its own names.
        topic: The topic of all rows; None if the column ``topic`` names it.
        payloads: The formats of keys and values that aren't raw.
        transactions: The options of ``semantics=exactly_once``; None for ``at_least_once``.
    """

    producer: Mapping[str, Any]
    topic: str | None
    payloads: tuple[Payload, ...] = ()
    transactions: TransactionOptions | None = None


def parse_write_options(options: Mapping[str, str], *, stream: bool = False) -> WriteOptions:
    """Parse and validate the options for writing a batch, or a ``stream``.

    Raises:
        ConfigurationError: An option is unknown, refused, missing or contradicts another, or has an invalid value.
    """
    given = WRITING.parse(options)
    check_providers(given)
    producer: dict[str, Any] = {"batch_size": BATCH_SIZE, "buffer_memory": BUFFER_MEMORY}
    producer |= {entry.own: given[name] for name, entry in _PRODUCER.items() if name in given}
    # In Java 0 means one record per batch, which is the smallest batch here, too.
    producer["batch_size"] = max(producer["batch_size"], 1)
    connection = connection_options(given)
    producer |= connection
    producer |= _compression_level(given)
    transactions = _transactions(given, connection, stream=stream)
    try:
        # The producer checks the options together. It doesn't connect before its start.
        if (known := checkable(producer)) is not None:
            Producer(**known, transactional_id=None if transactions is None else transactions.prefix)
    except ConfigurationError as error:
        names = {entry.own: name for name, entry in _PRODUCER.items()}
        names["compression_level"] = f"kafka.compression.{given.get('kafka.compression.type')}.level"
        raise with_option_names(error, names) from None
    topic = given.get("topic")
    return WriteOptions(producer, topic, parse_payloads(given, () if topic is None else (topic,)), transactions)


def _transactions(
    given: Mapping[str, Any], connection: Mapping[str, Any], *, stream: bool
) -> TransactionOptions | None:
    if given.get("semantics") != "exactly_once":
        if unused := [name for name in _EXACTLY_ONCE if name in given]:
            raise ConfigurationError(f"{unused[0]} needs semantics=exactly_once: rows are written at least once")
        return None
    if "jobVersion" in given and "jobId" not in given:
        raise ConfigurationError("jobVersion needs jobId, the job whose batches it numbers")
    if stream and "jobId" in given:
        raise ConfigurationError("jobId is for batch writes: a stream numbers its batches in its checkpoint")
    prefix, location = given.get("transactionalIdPrefix"), given.get(CHECKPOINT) if stream else None
    query = query_id(location) if location else None
    if prefix is None and location:
        prefix = prefix_of(location, query)
    if prefix is None:
        raise ConfigurationError(
            "semantics=exactly_once needs transactionalIdPrefix, a name of this query or job that stays the same when "
            "it is restarted: by it the next run finds what a killed one has left"
        )
    return TransactionOptions(
        connection=connection,
        prefix=prefix,
        state_topic=WRITING.value(given, "stateTopic"),
        timeout_ms=WRITING.value(given, "kafka.transaction.timeout.ms"),
        two_phase=given.get("kafka.transaction.two.phase.commit.enable"),
        on_loss=WRITING.value(given, "onTransactionLoss"),
        run=query or given.get("jobId"),
        job_version=given.get("jobVersion"),
        offsets=last_offsets(location) if location else None,
    )


def _compression_level(given: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the level of the codec that is used. As in Java, the levels of other codecs are ignored."""
    codec = given.get("kafka.compression.type")
    level = given.get(f"kafka.compression.{codec}.level")
    # The level -1 means the default for gzip, but it's a real level for zstd.
    return {} if level is None or (codec == "gzip" and level == -1) else {"compression_level": level}
