"""The options of the sink, with the names of Spark's own Kafka connector. Pure.

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
from aiokproto.spark.credentials import checkable
from aiokproto.spark.option_table import OptionTable
from aiokproto.spark.options import CLIENT, PROVIDER_OPTIONS, connection_options, in_their_names
from aiokproto.spark.options import HONOURED as READING
from aiokproto.spark.options_unused import REFUSED as REFUSED_READING
from aiokproto.spark.options_unused import WITHOUT_EFFECT as UNUSED_READING
from aiokproto.spark.options_values import INT32_MAX, Reader, boolean, check_topic, integer, one_of
from aiokproto.spark.payloads.options import PAYLOAD_OPTIONS, Payload, parse_payloads

BATCH_SIZE = 512 * 1024
"""Default of ``kafka.batch.size``. A task has all its rows at once, so larger batches cost no latency, and brokers have
fewer of them to check and to store."""

BUFFER_MEMORY = 32 * 1024 * 1024
"""Default of ``kafka.buffer.memory``, as in Java."""

_ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def _topic(text: str) -> str:
    check_topic(text.strip())
    return text.strip()


def _partitioner(text: str) -> str:
    if text.strip() != _ROUND_ROBIN:
        raise ValueError(
            f"Java classes cannot be used, except {_ROUND_ROBIN}; compute the column partition in their place"
        )
    return "round_robin"


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

HONOURED: Mapping[str, Reader] = {
    "topic": _topic,
    **{name: reader for name, (_, reader) in _PRODUCER.items()},
    **_LEVELS,
    **PAYLOAD_OPTIONS,
    **CLIENT,
    **PROVIDER_OPTIONS,
}
"""All options that have an effect, with the parsers of their values."""

_TRANSACTIONS = "rows are written at least once, without transactions"
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
    "kafka.transactional.id": _TRANSACTIONS,
    "kafka.transaction.timeout.ms": _TRANSACTIONS,
    "kafka.transaction.two.phase.commit.enable": _TRANSACTIONS,
}
"""Options that are refused, and why."""

_SPARKS = ("checkpointLocation", "queryName")

WITHOUT_EFFECT = (
    *_SPARKS,
    *(
        name
        for name in (*READING, *UNUSED_READING, *REFUSED_READING)
        if name not in HONOURED and name not in REFUSED and not (name == "topic" or name.endswith("."))
    ),
)
"""Options that are accepted without effect: those of reading, and those that Spark itself reads."""

_TABLE = OptionTable(HONOURED, WITHOUT_EFFECT, REFUSED)


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, parsed.

    Attributes:
        producer: Options of the producer, under its own names.
        topic: The topic of all rows; None if the column ``topic`` names it.
        payloads: The formats of keys and values that are not raw.
    """

    producer: Mapping[str, Any]
    topic: str | None
    payloads: tuple[Payload, ...] = ()


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse and validate the options of a batch or stream that is written.

    Raises:
        ConfigurationError: An option is unknown, refused, missing or contradicts another, or has an invalid value.
    """
    given = _TABLE.parse(options)
    producer: dict[str, Any] = {"batch_size": BATCH_SIZE, "buffer_memory": BUFFER_MEMORY}
    producer |= {ours: given[name] for name, (ours, _) in _PRODUCER.items() if name in given}
    # In Java 0 means one record in a batch, which is what the smallest batch has here.
    producer["batch_size"] = max(producer["batch_size"], 1)
    producer |= connection_options(given)
    producer |= _compression_level(given)
    try:
        # It checks the options together, and connects to nothing before its start.
        if (known := checkable(producer)) is not None:
            Producer(**known)
    except ConfigurationError as error:
        names = {ours: name for name, (ours, _) in _PRODUCER.items()}
        names["compression_level"] = f"kafka.compression.{given.get('kafka.compression.type')}.level"
        raise in_their_names(error, names) from None
    topic = given.get("topic")
    return WriteOptions(producer, topic, parse_payloads(given, () if topic is None else (topic,)))


def _compression_level(given: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the level of the codec that is used: as in Java, those of others do not count."""
    codec = given.get("kafka.compression.type")
    level = given.get(f"kafka.compression.{codec}.level")
    # -1 is gzip's own word for its default, and a level of zstd.
    return {} if level is None or (codec == "gzip" and level == -1) else {"compression_level": level}
