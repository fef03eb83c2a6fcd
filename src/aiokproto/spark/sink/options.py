"""The options of the sink, with the names of Spark's own Kafka connector. Pure, but for the id of a stream's query.

As for reading, each option of the connector and of the Java clients is honoured, without effect, or refused, and any
other is an error. Options that are for reading have no effect here, so that a job can use one set for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.producer import Producer
from aiokproto.spark.credentials import check_providers, checkable
from aiokproto.spark.option_table import OptionTable
from aiokproto.spark.options import CLIENT, PROVIDER_OPTIONS, connection_options, in_their_names
from aiokproto.spark.options import HONOURED as READING
from aiokproto.spark.options_unused import REFUSED as REFUSED_READING
from aiokproto.spark.options_unused import WITHOUT_EFFECT as UNUSED_READING
from aiokproto.spark.options_values import INT32_MAX, Reader, boolean, integer, one_of, topic_name
from aiokproto.spark.payloads.options import PAYLOAD_OPTIONS, Payload, parse_payloads
from aiokproto.spark.sink.checkpoint import OPTION as CHECKPOINT
from aiokproto.spark.sink.checkpoint import last_offsets, prefix_of, query_id

BATCH_SIZE = 512 * 1024
"""Default of ``kafka.batch.size``. A task has all its rows at once, so larger batches cost no latency, and brokers have
fewer of them to check and to store."""

BUFFER_MEMORY = 32 * 1024 * 1024
"""Default of ``kafka.buffer.memory``, as in Java."""

TRANSACTION_TIMEOUT_MS = 900_000
"""Default of ``kafka.transaction.timeout.ms``: the most that brokers allow by default. A transaction is open until all
tasks of a batch have ended."""

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

_PRODUCER: Mapping[str, tuple[str, Reader]] = {
    "kafka.acks": ("acks", one_of("all", "-1", "0", "1")),
    "kafka.batch.size": ("batch_size", _integer(0)),
    "kafka.buffer.memory": ("buffer_memory", integer(0)),
    "kafka.client.rack": ("client_rack", str),
    "kafka.compression.type": ("compression_type", one_of("none", "gzip", "snappy", "lz4", "zstd")),
    "kafka.delivery.timeout.ms": ("delivery_timeout_ms", _integer(1)),
    "kafka.enable.idempotence": ("enable_idempotence", boolean),
    "kafka.linger.ms": ("linger_ms", integer(0)),
    "kafka.max.block.ms": ("max_block_ms", integer(0)),
    "kafka.max.in.flight.requests.per.connection": ("max_in_flight_requests_per_connection", _integer(1)),
    "kafka.max.request.size": ("max_request_size", _integer(0)),
    "kafka.partitioner.adaptive.partitioning.enable": ("partitioner_adaptive_partitioning_enable", boolean),
    "kafka.partitioner.availability.timeout.ms": ("partitioner_availability_timeout_ms", integer(0)),
    "kafka.partitioner.class": ("partitioner", _partitioner),
    "kafka.partitioner.ignore.keys": ("partitioner_ignore_keys", boolean),
    "kafka.partitioner.rack.aware": ("partitioner_rack_aware", boolean),
}
"""Options of the producer: its own name of each, and the parser of the value."""

_LEVELS: Mapping[str, Reader] = {
    f"kafka.compression.{codec}.level": integer(-INT32_MAX, INT32_MAX) for codec in ("gzip", "lz4", "zstd")
}

_EXACTLY_ONCE: Mapping[str, Reader] = {
    "transactionalIdPrefix": _name,
    "stateTopic": topic_name,
    "jobId": _name,
    "jobVersion": integer(0),
    "onTransactionLoss": one_of("fail", "rewrite", "skip"),
    "kafka.transaction.timeout.ms": _integer(1),
    "kafka.transaction.two.phase.commit.enable": boolean,
}
"""Options that need ``semantics=exactly_once``."""

HONOURED: Mapping[str, Reader] = {
    "topic": topic_name,
    "semantics": one_of("at_least_once", "exactly_once"),
    **_EXACTLY_ONCE,
    **{name: reader for name, (_, reader) in _PRODUCER.items()},
    **_LEVELS,
    **PAYLOAD_OPTIONS,
    **CLIENT,
    **PROVIDER_OPTIONS,
}
"""All options that have an effect, with the parsers of their values."""

_TRANSACTIONAL_ID = "each task has its own; with semantics=exactly_once they begin with transactionalIdPrefix"
_SERIALIZER = "keys and values are written as the columns have them"

REFUSED = {
    **{
        name: reason
        for name, reason in REFUSED_READING.items()
        # These say what is read, and how: refused there, without effect here.
        if name not in ("kafka.auto.offset.reset", "kafka.enable.auto.commit") and not name.endswith("deserializer")
    },
    "kafka.key.serializer": _SERIALIZER,
    "kafka.value.serializer": _SERIALIZER,
    "kafka.transactional.id": _TRANSACTIONAL_ID,
}
"""Options that are refused, and why."""

WITHOUT_EFFECT = (
    "queryName",
    *(
        name
        for name in (*READING, *UNUSED_READING, *REFUSED_READING)
        if name not in HONOURED and name not in REFUSED and not (name == "topic" or name.endswith("."))
    ),
)
"""Options that are accepted without effect: those of reading, and those that Spark itself reads."""

_TABLE = OptionTable(HONOURED, WITHOUT_EFFECT, REFUSED, {CHECKPOINT: str})


@dataclass(frozen=True)
class TransactionOptions:
    """The options of a write with ``semantics=exactly_once``.

    Attributes:
        connection: Options of a client, under its own names.
        prefix: The prefix of all transactional ids.
        state_topic: The topic with the state.
        timeout_ms: The transaction timeout, without two-phase commit.
        two_phase: Whether to use two-phase commit; None: if the brokers grant it.
        on_loss: What to do about a batch that is partly lost: "fail", "rewrite" or "skip".
        run: The id of the query or job; None if a job has none, or that of the query is not known.
        job_version: The number of a job's batch: those of a job increase.
        offsets: Which records the batch of a stream has: see :func:`aiokproto.spark.sink.checkpoint.last_offsets`.
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
        payloads: The formats of keys and values that are not raw.
        transactions: The options of ``semantics=exactly_once``; None at least once.
    """

    producer: Mapping[str, Any]
    topic: str | None
    payloads: tuple[Payload, ...] = ()
    transactions: TransactionOptions | None = None


def parse_write_options(options: Mapping[str, str], *, stream: bool = False) -> WriteOptions:
    """Parse and validate the options of a batch that is written, or of a ``stream``.

    Raises:
        ConfigurationError: An option is unknown, refused, missing or contradicts another, or has an invalid value.
    """
    given = _TABLE.parse(options)
    check_providers(given)
    producer: dict[str, Any] = {"batch_size": BATCH_SIZE, "buffer_memory": BUFFER_MEMORY}
    producer |= {ours: given[name] for name, (ours, _) in _PRODUCER.items() if name in given}
    # In Java 0 means one record in a batch, which is what the smallest batch has here.
    producer["batch_size"] = max(producer["batch_size"], 1)
    connection = connection_options(given)
    producer |= connection
    producer |= _compression_level(given)
    transactions = _transactions(given, connection, stream=stream)
    try:
        # It checks the options together, and connects to nothing before its start.
        if (known := checkable(producer)) is not None:
            Producer(**known, transactional_id=None if transactions is None else transactions.prefix)
    except ConfigurationError as error:
        names = {ours: name for name, (ours, _) in _PRODUCER.items()}
        names["compression_level"] = f"kafka.compression.{given.get('kafka.compression.type')}.level"
        raise in_their_names(error, names) from None
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
        state_topic=given.get("stateTopic", STATE_TOPIC),
        timeout_ms=given.get("kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
        two_phase=given.get("kafka.transaction.two.phase.commit.enable"),
        on_loss=given.get("onTransactionLoss", "fail"),
        run=query or given.get("jobId"),
        job_version=given.get("jobVersion"),
        offsets=last_offsets(location) if location else None,
    )


def _compression_level(given: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the level of the codec that is used: as in Java, those of others do not count."""
    codec = given.get("kafka.compression.type")
    level = given.get(f"kafka.compression.{codec}.level")
    # -1 is gzip's own word for its default, and a level of zstd.
    return {} if level is None or (codec == "gzip" and level == -1) else {"compression_level": level}
