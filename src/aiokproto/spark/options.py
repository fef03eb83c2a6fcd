"""The options of the data source, with the names of Spark's own Kafka connector. Pure.

Names are case-insensitive. Options of the client have the prefix ``kafka.`` and the names of the Java client, such as
``kafka.fetch.max.wait.ms``; here they become ``fetch_max_wait_ms``.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.errors import ConfigurationError
from aiokproto.spark.offsets import EARLIEST, LATEST, Bound, parse_assignment, parse_offsets

T = TypeVar("T")
D = TypeVar("D")

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns there are; ``headers`` only with ``includeHeaders``."""

TOPIC_IDS = "aiokproto.topicIds"
"""Not for users: the ids that the topics must have, as JSON, so that a replaced topic is never read in place of the one
that was planned for."""

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
"""Those that say what to read, and from where to where."""

NAMES = (
    *OFFSET_OPTIONS,
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    TOPIC_IDS,
)
_SPELLING = {name.lower(): name for name in NAMES}
_PREFIX = "kafka."
_BOOTSTRAP = "kafka.bootstrap.servers"

_PROTECTED = {
    "auto.offset.reset": "startingOffsets says where to start",
    "enable.auto.commit": "offsets are kept by Spark, or with the output, never committed to a group",
    "key.deserializer": "keys are read as bytes; cast or decode the column",
    "value.deserializer": "values are read as bytes; cast or decode the column",
    "interceptor.classes": "Java classes cannot be used",
}
# They belong to groups and to the Java client's poll loop. Jobs that set them keep working: there is neither here.
_WITHOUT_EFFECT = frozenset(
    {
        "group.id",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "session.timeout.ms",
    }
)
# By the annotation of the client's option. What is not text (a function, a TLS context) cannot be an option of Spark.
_READERS: Mapping[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float}

_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Selection:
    """Which partitions to read: all of ``topics``, those of ``assignment``, or all topics that match ``pattern``."""

    topics: tuple[str, ...] = ()
    assignment: Mapping[str, tuple[int, ...]] | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class FetchSettings:
    """How tasks fetch.

    Attributes:
        read_committed: Leave out what is not, or not yet, committed (``kafka.isolation.level``). Default: no.
        max_wait_ms: How long a broker waits for ``min_bytes`` (``kafka.fetch.max.wait.ms``, 500).
        min_bytes: ``kafka.fetch.min.bytes``, 1.
        max_bytes: The most a response is to hold, unless a single batch is larger: the smaller one of
            ``kafka.max.partition.fetch.bytes`` and ``kafka.fetch.max.bytes``, 4 MiB.
        check_crcs: Compare the checksums (``kafka.check.crcs``, true).
    """

    read_committed: bool = False
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 4 << 20
    check_crcs: bool = True

    @property
    def isolation_level(self) -> int:
        """As requests have it."""
        return int(self.read_committed)


@dataclass(frozen=True)
class ReadOptions:
    """The options of a batch read, parsed.

    Attributes:
        connection: Options of the client, by its own names.
        selection: What to read.
        starting: Where to start, default the start of the log.
        ending: Where to end, default the end of the log as it is when the read is planned.
        unmatched_is_latest: Strategy for partitions without a record at or after the starting timestamp.
        fetch: How tasks fetch.
        min_partitions: Tasks wanted at least, None for one a partition.
        max_records_per_partition: The most offsets in one task.
        columns: The columns of the result, in order.
        fail_on_data_loss: Whether missing records are an error (default) or a warning.
        poll_timeout: Seconds a task waits for a range to go on (``kafkaConsumer.pollTimeoutMs``, 120 s).
        offset_retries: Times to ask again for offsets (``fetchOffset.numRetries``, 3).
        offset_retry_interval: Seconds between (``fetchOffset.retryIntervalMs``, 1 s).
        topic_ids: Hex ids the topics must have.
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

    @property
    def include_headers(self) -> bool:
        """Whether headers have to be read."""
        return "headers" in self.columns


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse and validate the options of a batch read.

    Raises:
        ConfigurationError: An option is unknown, missing, contradicts another, or has a value that cannot be used.
    """
    given = _Given(options)
    topic_ids = given.take(TOPIC_IDS, _topic_ids, {})
    given.take("groupIdPrefix", str, "")
    starting, ending = _starting(given), _ending(given)
    _check_order(starting, ending)
    return ReadOptions(
        connection=given.connection,
        fetch=given.fetch,
        selection=_selection(given),
        starting=starting,
        ending=ending,
        unmatched_is_latest=given.take("startingOffsetsByTimestampStrategy", _one_of("error", "latest"), "error")
        == "latest",
        min_partitions=given.take("minPartitions", _whole(1), None),
        max_records_per_partition=given.take("maxRecordsPerPartition", _whole(1), None),
        columns=_columns(given),
        fail_on_data_loss=given.take("failOnDataLoss", _boolean, True),
        poll_timeout=given.take("kafkaConsumer.pollTimeoutMs", _whole(1), 120_000) / 1000,
        offset_retries=given.take("fetchOffset.numRetries", _whole(0), 3),
        offset_retry_interval=given.take("fetchOffset.retryIntervalMs", _whole(0), 1000) / 1000,
        topic_ids=topic_ids,
    )


class _Given:
    """The options as given, by their official names; those with the prefix ``kafka.`` apart."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options: dict[str, str] = {}
        client: dict[str, str] = {}
        for name, value in options.items():
            lower = name.lower()
            if lower.startswith(_PREFIX):
                client[lower.removeprefix(_PREFIX)] = value
            elif lower in _SPELLING:
                self._options[_SPELLING[lower]] = value
            else:
                hint = nearest(lower, (*_SPELLING, _BOOTSTRAP), _SPELLING)
                raise ConfigurationError(f"unknown option {name!r}{hint}")
        for name in sorted(_PROTECTED.keys() & client.keys()):
            raise ConfigurationError(f"kafka.{name} cannot be set: {_PROTECTED[name]}")
        if not client.get("bootstrap.servers", "").strip():
            raise ConfigurationError(f"{_BOOTSTRAP} is required: host:port[,host:port…]")
        self.fetch = _fetch_settings(client)
        self.connection = _connection(client)

    def __contains__(self, name: str) -> bool:
        return name in self._options

    def take(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        """The parsed value of an option.

        Raises:
            ConfigurationError: The value cannot be used.
        """
        if name not in self._options:
            return default
        return _parsed(name, self._options[name], parse)


def _fetch_settings(client: dict[str, str]) -> FetchSettings:
    """Takes the options that are about fetching, and not about connections, out of those of the client."""
    default = FetchSettings()

    def take(name: str, parse: Callable[[str], T], otherwise: T) -> T:
        return _parsed(f"kafka.{name}", client.pop(name), parse) if name in client else otherwise

    partition_bytes = take("max.partition.fetch.bytes", _whole(1, _INT32_MAX), default.max_bytes)
    return FetchSettings(
        read_committed=take("isolation.level", _one_of("read_uncommitted", "read_committed"), "") == "read_committed",
        max_wait_ms=take("fetch.max.wait.ms", _whole(0, _INT32_MAX), default.max_wait_ms),
        min_bytes=take("fetch.min.bytes", _whole(0, _INT32_MAX), default.min_bytes),
        max_bytes=min(partition_bytes, take("fetch.max.bytes", _whole(1, _INT32_MAX), partition_bytes)),
        check_crcs=take("check.crcs", _boolean, default.check_crcs),
    )


def _connection(client: Mapping[str, str]) -> Mapping[str, Any]:
    """The options of the client by its own names, their text made into what they take."""
    types = {
        name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in ConnectionOptions.__annotations__.items()
    }
    spelling = {name: _PREFIX + name.replace("_", ".") for name, kind in types.items() if kind in _READERS}
    spelling["bootstrap_servers"] = _BOOTSTRAP
    options: dict[str, Any] = {}
    for name, value in client.items():
        if name in _WITHOUT_EFFECT:
            continue
        ours = name.replace(".", "_")
        if ours not in spelling:
            raise ConfigurationError(f"unknown option 'kafka.{name}'{nearest(ours, spelling, spelling)}")
        options[ours] = _parsed(f"kafka.{name}", value, _READERS.get(types[ours], str))
    ClusterConfig.parse(options)
    return options


def _selection(given: _Given) -> Selection:
    names = [name for name in ("subscribe", "assign", "subscribePattern") if name in given]
    if len(names) != 1:
        found = f"not {' and '.join(names)}" if names else "none is given"
        raise ConfigurationError(f"exactly one of subscribe, assign and subscribePattern is needed, {found}")
    assignment = given.take("assign", lambda text: parse_assignment("assign", text), None)
    topics = given.take("subscribe", _names, ())
    return Selection(tuple(dict.fromkeys(topics)), assignment, given.take("subscribePattern", _pattern, None))


def _starting(given: _Given) -> Bound:
    if found := _timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp"):
        return found
    name = "startingOffsets"
    text = given.take(name, str, "earliest").strip()
    if text.lower() == "earliest":
        return Bound(name, EARLIEST)
    if text.lower() == "latest":
        raise ConfigurationError(f"{name}=latest reads nothing in a batch: only a stream can start there")
    return Bound(name, each=parse_offsets(name, text, allowed=EARLIEST))


def _ending(given: _Given) -> Bound:
    if found := _timestamps(given, "endingTimestamp", "endingOffsetsByTimestamp"):
        return found
    name = "endingOffsets"
    text = given.take(name, str, "latest").strip()
    if text.lower() == "latest":
        return Bound(name, LATEST)
    if text.lower() == "earliest":
        raise ConfigurationError(f"{name}=earliest reads nothing: a range cannot end where the log starts")
    return Bound(name, each=parse_offsets(name, text, allowed=LATEST))


def _timestamps(given: _Given, every: str, each: str) -> Bound | None:
    """As in the official connector a timestamp for all goes before timestamps for each, and both before offsets."""
    if every in given:
        return Bound(every, given.take(every, _whole(0), 0), by_timestamp=True)
    if each in given:
        return Bound(
            each, each=given.take(each, lambda text: parse_offsets(each, text, allowed=None), None), by_timestamp=True
        )
    return None


def _check_order(starting: Bound, ending: Bound) -> None:
    if starting.by_timestamp != ending.by_timestamp:
        return
    for partition in (starting.each or {}).keys() & (ending.each or {}).keys():
        if starting.of(partition) > ending.of(partition) >= 0:
            raise ConfigurationError(
                f"{partition} ends ({ending.option}: {ending.of(partition)}) "
                f"before it starts ({starting.option}: {starting.of(partition)})"
            )


def _columns(given: _Given) -> tuple[str, ...]:
    with_headers = given.take("includeHeaders", _boolean, False)
    valid = COLUMNS if with_headers else COLUMNS[:-1]
    if "columns" not in given:
        return valid
    spelling = {name.lower(): name for name in valid}
    chosen = []
    for name in given.take("columns", _names, ()):
        if name.lower() == "headers" and not with_headers:
            raise ConfigurationError("columns: headers needs includeHeaders=true")
        if name.lower() not in spelling:
            raise ConfigurationError(f"columns: {name!r} is no column{nearest(name.lower(), spelling, spelling)}")
        chosen.append(spelling[name.lower()])
    if len(set(chosen)) < len(chosen):
        raise ConfigurationError(f"columns: a column is named twice in {', '.join(chosen)}")
    return tuple(chosen)


def nearest(name: str, valid: Iterable[str], spelling: Mapping[str, str]) -> str:
    """A hint at the valid name most like ``name``, or at all of them when none is."""
    known = list(valid)
    found = difflib.get_close_matches(name, known, 1)
    if found:
        return f"; did you mean {spelling.get(found[0], found[0])!r}?"
    return f"; valid are {', '.join(sorted(spelling.get(one, one) for one in known))}"


def _parsed(name: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"{name}={text!r}: {error}") from None


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if number < least or (most is not None and number > most):
            raise ValueError(f"must be at least {least}" + (f" and at most {most}" if most is not None else ""))
        return number

    return parse


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return text.strip().lower()

    return parse


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError("must be names, separated by commas")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


def _topic_ids(text: str) -> Mapping[str, str]:
    return {str(topic): str(topic_id) for topic, topic_id in json.loads(text).items()}
