"""The options of the data source, with the names of Spark's own Kafka connector. Pure, but for a warning.

Names are case-insensitive. Options of the client have the prefix ``kafka.`` and the names of the Java client, such as
``kafka.request.timeout.ms``; this module maps them to ``request_timeout_ms``. Each option of the connector and of the
Java client is on one of three lists: honoured (in this module), accepted without effect, or refused (both in
:mod:`aiokproto.spark.options_unused`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokproto.cluster.exposure import exposures
from aiokproto.config import SECURITY_PROTOCOLS, ClusterConfig, ConnectionOptions
from aiokproto.errors import ConfigurationError
from aiokproto.records.compression import MAX_DECOMPRESSED
from aiokproto.records.record import MAX_RECORD
from aiokproto.spark.credentials import (
    FUNCTIONS,
    PROVIDERS,
    SENSITIVE,
    Hidden,
    check_providers,
    check_references,
    checkable,
    client_options,
    function_name,
    java_name,
    provider_class,
)
from aiokproto.spark.credentials import providers as provider_names
from aiokproto.spark.offsets import EARLIEST, LATEST, Bound, parse_assignment, parse_offsets
from aiokproto.spark.option_table import OptionTable, nearest
from aiokproto.spark.options_unused import REFUSED, WITHOUT_EFFECT
from aiokproto.spark.options_values import (
    INT32_MAX,
    Reader,
    boolean,
    duration,
    integer,
    names,
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
"""Internal option: the expected topic ids, as JSON. A topic that was deleted and created again after planning has
another id, so a task never reads it by mistake."""

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

_BOOTSTRAP = "kafka.bootstrap.servers"
# By the annotation of the client's option. Objects, such as TLS contexts, cannot be options of Spark, which are text.
_READERS: Mapping[str, Reader] = {
    "str": str,
    "str | Path": str,
    "str | Sequence[str]": str,
    "str | SaslMechanism": str,
    "str | HostnameMap": str,
    "SecretSource": str,
    "int": int,
    "float": float,
    "bool": boolean,
}
_KINDS = {name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in ConnectionOptions.__annotations__.items()}


def _security_protocol(text: str) -> str:
    return one_of(*(protocol.lower() for protocol in SECURITY_PROTOCOLS))(text).upper()


_OWN: Mapping[str, Reader] = {
    **{
        name: Hidden if name in SENSITIVE else _READERS[kind.removesuffix(" | None")]
        for name, kind in _KINDS.items()
        if kind.removesuffix(" | None") in _READERS and java_name(name) not in WITHOUT_EFFECT
    },
    "bootstrap_servers": str,
    "security_protocol": _security_protocol,
}

_NAMES: Mapping[str, str] = {**{java_name(name): name for name in _OWN}, **FUNCTIONS}
"""The client's own name of each of its options."""

CLIENT: Mapping[str, Reader] = {
    **{java_name(name): reader for name, reader in _OWN.items()},
    **dict.fromkeys(FUNCTIONS, function_name),
}
"""Options of the client, with the parsers of their values."""

PROVIDER_OPTIONS: Mapping[str, Reader] = {
    "kafka.config.providers": provider_names,
    **{f"kafka.config.providers.{name}.class": provider_class(name) for name in PROVIDERS},
}
"""Options of the configuration providers, all of which are there without them."""

HONOURED: Mapping[str, Reader] = {
    "subscribe": topics,
    "subscribePattern": pattern,
    "assign": partial(parse_assignment, "assign"),
    # Their valid values differ between batch and stream: they stay text until the read is planned.
    "startingOffsets": str.strip,
    "endingOffsets": str.strip,
    "startingTimestamp": integer(0, of="milliseconds since the epoch"),
    "endingTimestamp": integer(0, of="milliseconds since the epoch"),
    "startingOffsetsByTimestamp": partial(parse_offsets, "startingOffsetsByTimestamp", allowed=()),
    "endingOffsetsByTimestamp": partial(parse_offsets, "endingOffsetsByTimestamp", allowed=()),
    "startingOffsetsByTimestampStrategy": one_of("error", "latest"),
    "minPartitions": integer(1, INT32_MAX),
    "maxRecordsPerPartition": integer(1),
    "includeHeaders": boolean,
    "columns": names,
    "filterPushdown": boolean,
    "deadLetterTopic": topic_name,
    "failOnDataLoss": boolean,
    "maxOffsetsPerTrigger": integer(1),
    "minOffsetsPerTrigger": integer(1),
    "maxTriggerDelay": duration,
    "kafkaConsumer.pollTimeoutMs": integer(1),
    "fetchOffset.numRetries": integer(0, INT32_MAX),
    "fetchOffset.retryIntervalMs": integer(-1),
    "kafka.isolation.level": one_of("read_uncommitted", "read_committed"),
    "kafka.max.partition.fetch.bytes": integer(0, INT32_MAX),
    "kafka.fetch.max.bytes": integer(0, INT32_MAX),
    "kafka.fetch.max.wait.ms": integer(0, INT32_MAX),
    "kafka.fetch.min.bytes": integer(0, INT32_MAX),
    "kafka.check.crcs": boolean,
    "kafka.max.decompressed.bytes": integer(1),
    "kafka.max.record.bytes": integer(1),
    **PAYLOAD_OPTIONS,
    **CLIENT,
    **PROVIDER_OPTIONS,
}
"""All options that have an effect, with the parsers of their values. :mod:`.options_unused` has the other options."""

_READING = OptionTable(HONOURED, WITHOUT_EFFECT, REFUSED, {TOPIC_IDS: topic_ids})


@dataclass(frozen=True)
class Selection:
    """The partitions to read: all of ``topics``, those of ``assignment``, or all topics that match ``pattern``."""

    topics: tuple[str, ...] = ()
    assignment: Mapping[str, tuple[int, ...]] | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class FetchSettings:
    """Settings of the Fetch requests that tasks send.

    Attributes:
        read_committed: Skip records of aborted and open transactions (``kafka.isolation.level``, false).
        max_wait_ms: Milliseconds that a broker waits for ``min_bytes`` (``kafka.fetch.max.wait.ms``, 500).
        min_bytes: ``kafka.fetch.min.bytes``, 1.
        max_bytes: Limit of a response, which only a single larger batch exceeds: the smaller one of
            ``kafka.max.partition.fetch.bytes`` and ``kafka.fetch.max.bytes``, 4 MiB.
        check_crcs: Verify the checksums (``kafka.check.crcs``, true).
        max_decompressed: Most bytes that a batch decompresses to (``kafka.max.decompressed.bytes``, 1 GiB).
        max_record: Most bytes of a record, with 192 for each header (``kafka.max.record.bytes``, 50 MiB).
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


@dataclass(frozen=True)
class ReadOptions:
    """The options of a batch read, parsed.

    Attributes:
        connection: Options of the client, under its own names.
        selection: The partitions to read.
        starting: Start of the ranges; default: the start of the log.
        ending: End of the ranges; default: the end of the log when the read is planned.
        unmatched_is_latest: Whether a partition without a record at or after the starting timestamp has nothing to
            read; otherwise it is an error (``startingOffsetsByTimestampStrategy``).
        fetch: Settings of Fetch requests.
        min_partitions: Minimum number of tasks, about; None for one task per partition.
        max_records_per_partition: Maximum number of offsets in a task.
        columns: The columns of the result, in order.
        fail_on_data_loss: Whether missing records are an error (default) or a warning.
        poll_timeout: Seconds that a task waits for further records of its range (``kafkaConsumer.pollTimeoutMs``,
            120 s).
        offset_retries: Number of retries when requesting offsets (``fetchOffset.numRetries``, 3).
        offset_retry_interval: Seconds between retries (``fetchOffset.retryIntervalMs``, 1 s).
        topic_ids: The expected topic ids, in hex.
        payloads: The formats of keys and values that are not raw.
        dead_letter_topic: The topic that malformed records are written to; None for none.
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


def parse_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that have an effect, by their official names, with their parsed values.

    The read may be a batch or a stream: a missing option is not an error here.

    Raises:
        ConfigurationError: An option is unknown or refused, or has an invalid value.
    """
    given = _READING.parse(options)
    check_providers(given)
    return given


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse and validate the options of a batch read.

    Raises:
        ConfigurationError: An option is unknown, refused, missing or contradicts another, or has an invalid value.
    """
    given = parse_options(options)
    starting, ending = _starting(given), _ending(given)
    _check_order(starting, ending)
    return read_options(given, starting, ending)


def read_options(given: Mapping[str, Any], starting: Bound, ending: Bound) -> ReadOptions:
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
        unmatched_is_latest=given.get("startingOffsetsByTimestampStrategy") == "latest",
        min_partitions=given.get("minPartitions"),
        max_records_per_partition=given.get("maxRecordsPerPartition"),
        columns=chosen_columns(given),
        fail_on_data_loss=given.get("failOnDataLoss", True),
        poll_timeout=given.get("kafkaConsumer.pollTimeoutMs", 120_000) / 1000,
        offset_retries=given.get("fetchOffset.numRetries", 3),
        offset_retry_interval=max(given.get("fetchOffset.retryIntervalMs", 1000), 0) / 1000,
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
    if all(one.mode == "failfast" for one in payloads_of(given)):
        raise ConfigurationError(
            "deadLetterTopic has no effect: no column has a format with mode permissive or dropmalformed"
        )
    return name


def payloads_of(given: Mapping[str, Any]) -> tuple[Payload, ...]:
    """Return the formats of the chosen columns that are not raw; ``given`` comes from :func:`parse_options`.

    Raises:
        ConfigurationError: An option of a format is missing, or has no effect.
    """
    topics = given.get("subscribe") or given.get("assign") or ()
    columns = chosen_columns(given)
    return tuple(one for one in parse_payloads(given, tuple(topics)) if one.column in columns)


def parse_connection(options: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the client's options, under its own names, of data source options that start with ``kafka.``.

    Raises:
        ConfigurationError: An option is unknown or refused, is none of the client's, or has an invalid value.
    """
    given = parse_options({name: str(value) for name, value in options.items()})
    if other := sorted(given.keys() - CLIENT.keys() - PROVIDER_OPTIONS.keys()):
        raise ConfigurationError(f"options: {other[0]} is no option of the connection")
    return connection_options(given)


def _fetch_settings(given: Mapping[str, Any]) -> FetchSettings:
    default = FetchSettings()
    partition_bytes = given.get("kafka.max.partition.fetch.bytes", default.max_bytes)
    return FetchSettings(
        read_committed=given.get("kafka.isolation.level") == "read_committed",
        max_wait_ms=given.get("kafka.fetch.max.wait.ms", default.max_wait_ms),
        min_bytes=given.get("kafka.fetch.min.bytes", default.min_bytes),
        # With 0 a broker sends one batch per response, as with 1.
        max_bytes=max(min(partition_bytes, given.get("kafka.fetch.max.bytes", partition_bytes)), 1),
        check_crcs=given.get("kafka.check.crcs", default.check_crcs),
        max_decompressed=given.get("kafka.max.decompressed.bytes", default.max_decompressed),
        max_record=given.get("kafka.max.record.bytes", default.max_record),
    )


def connection_options(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of the client under its own names; ``given`` comes from an :class:`OptionTable`.

    Raises:
        ConfigurationError: One is missing, or contradicts another.
    """
    if not given.get(_BOOTSTRAP, "").strip():
        raise ConfigurationError(f"{_BOOTSTRAP} is required: host:port[,host:port…]")
    java = {name: option for option, name in _NAMES.items()}
    options = {name: given[theirs] for name, theirs in java.items() if theirs in given}
    if not options.get("client_id", "-"):
        del options["client_id"]
    for name in ("retry_backoff_ms", "reconnect_backoff_ms", "metadata_max_age_ms"):
        # In Java 0 means "immediately". The minimum of this client differs little, and does not flood the brokers.
        if options.get(name) == 0:
            options[name] = 1
    for backoff in ("retry_backoff", "reconnect_backoff"):
        # Java accepts an initial backoff above the default of the maximum: then it is the maximum, too.
        if options.get(f"{backoff}_ms", 0) > 1000 * getattr(ClusterConfig, f"{backoff}_max"):
            options.setdefault(f"{backoff}_max_ms", options[f"{backoff}_ms"])
    # As in Java, where the login module of a JAAS configuration names none. Here it does.
    if options.get("security_protocol", "").startswith("SASL") and "sasl_jaas_config" not in options:
        options.setdefault("sasl_mechanism", "GSSAPI")
    check_references(options)
    try:
        if (known := checkable(options)) is not None:
            _warn_once(ClusterConfig.parse(known), java)
    except ConfigurationError as error:
        raise in_their_names(error, java) from None
    return options


_warned = set[str]()

logger = logging.getLogger("aiokproto.spark")


def client_config(connection: Mapping[str, Any]) -> ClusterConfig:
    """Return the configuration of a client in the driver.

    Args:
        connection: Options of the client, as :func:`connection_options` returns them.

    Raises:
        ConfigurationError: One is invalid, or what it refers to does not exist, or is not allowed.
    """
    config = ClusterConfig.parse(client_options(connection))
    if checkable(connection) is None:
        _warn_once(config, {name: option for option, name in _NAMES.items()})
    return config


def _warn_once(config: ClusterConfig, names: Mapping[str, str]) -> None:
    """Warn once in the driver's process about missing protection of a connection.

    The driver warns when it parses the options, or, if these have references, when it has resolved them. The clients of
    the driver and of the tasks do not warn, because there are too many of them.
    """
    for text in exposures(config):
        if text not in _warned:
            _warned.add(text)
            logger.warning("%s", in_their_names(ConfigurationError(text), names))


def in_their_names(error: ConfigurationError, names: Mapping[str, str]) -> ConfigurationError:
    """Return an error of the client with the names that its options have here."""
    return ConfigurationError(re.sub(r"[a-z]\w+", lambda word: names.get(word[0], word[0]), str(error)))


def _selection(given: Mapping[str, Any]) -> Selection:
    chosen = [name for name in ("subscribe", "assign", "subscribePattern") if name in given]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none of them"
        raise ConfigurationError(f"exactly one of subscribe, assign and subscribePattern is required, got {found}")
    topics = tuple(dict.fromkeys(given.get("subscribe", ())))
    return Selection(topics, given.get("assign"), given.get("subscribePattern"))


def _starting(given: Mapping[str, Any]) -> Bound:
    if found := timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp"):
        return found
    name = "startingOffsets"
    text = given.get(name, "earliest")
    if text.lower() == "earliest":
        return Bound(name, EARLIEST)
    if text.lower() == "latest":
        raise ConfigurationError(f"{name}=latest reads nothing in a batch: only a stream can start at the end")
    return Bound(name, each=parse_offsets(name, text, allowed=(EARLIEST,), words=("earliest",)))


def _ending(given: Mapping[str, Any]) -> Bound:
    if found := timestamps(given, "endingTimestamp", "endingOffsetsByTimestamp"):
        return found
    name = "endingOffsets"
    text = given.get(name, "latest")
    if text.lower() == "latest":
        return Bound(name, LATEST)
    if text.lower() == "earliest":
        raise ConfigurationError(f"{name}=earliest reads nothing: a range cannot end where the log starts")
    return Bound(name, each=parse_offsets(name, text, allowed=(LATEST,), words=("latest",)))


def timestamps(given: Mapping[str, Any], every: str, each: str) -> Bound | None:
    """Return the bound that timestamps define, or None without any; ``given`` comes from :func:`parse_options`.

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
        ConfigurationError: A column does not exist, or is named twice.
    """
    with_headers = given.get("includeHeaders", False)
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
