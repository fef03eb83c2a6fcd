"""The same options for Spark's own connector and for this source: what each makes of them.

Where the two differ the table says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from aiokproto.spark.options import FOR_WRITING, READING
from tests.spark.kafka import Kafka
from tests.spark.test_reading import NOW, some_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Some two reads a case, of a second or more.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

TOPIC = "side-by-side"

LEFT = 7
"""Records in the topic: offsets 1 to 4 of its first partition, 0 to 2 of its second. The first one was deleted."""


class Both(NamedTuple):
    """Both read the same rows, of which there are so many."""

    rows: int


class Refuse(NamedTuple):
    """Both refuse."""

    official: str
    ours: str


class Differ(NamedTuple):
    """One reads so many rows; what the other says, or how many it reads; and the reason."""

    official: int | str
    ours: int | str
    why: str


Outcome = Both | Refuse | Differ

IN_A_TASK = "UnknownReason"
"""What Spark makes of the connector's errors in tasks: their classes are in jars that came after it
had begun."""

IS_GREATER = "is greater than the resolved end offset"

TYPO = "a misspelt option would have no effect, without an error"
UNPROTECTED = "whoever sets it believes in a protection that is not there while kafka.security.protocol is PLAINTEXT"

SELECTIONS: Mapping[str, tuple[Mapping[str, str], Outcome]] = {
    "subscribe": ({"subscribe": "side-by-side"}, Both(LEFT)),
    "subscribe, with blanks and commas": ({"subscribe": " side-by-side,,side-by-side, "}, Both(LEFT)),
    "subscribe to nothing": ({"subscribe": ","}, Refuse("No topics to subscribe to", "subscribe=','")),
    "subscribe to an unknown topic": (
        {"subscribe": "side-by-side-not"},
        Refuse("UnknownTopicOrPartitionException", "topic 'side-by-side-not': UNKNOWN_TOPIC_OR_PARTITION"),
    ),
    "subscribePattern": ({"subscribePattern": "side-by-[a-z]+"}, Both(LEFT)),
    "subscribePattern, part of a name": ({"subscribePattern": "by-s"}, Both(LEFT)),
    "subscribePattern, the end of a name": ({"subscribePattern": " side$ "}, Both(LEFT)),
    "subscribePattern, no part of a name": ({"subscribePattern": "^by"}, Both(0)),
    "subscribePattern with a class that Java intersects": (
        {"subscribePattern": "^side-by-s[a-z&&[^q]]de$"},
        Differ(LEFT, "subscribePattern=", "Python reads other names"),
    ),
    "assign nothing of another topic": ({"assign": '{"side-by-side": [1], "other": []}'}, Both(3)),
    "subscribePattern in Java's syntax alone": (
        {"subscribePattern": r"side-by-side\p{Digit}*"},
        Differ(LEFT, "subscribePattern=", "patterns are Python's"),
    ),
    "assign": ({"assign": '{"side-by-side": [1]}'}, Both(3)),
    "assign, no JSON": ({"assign": "side-by-side"}, Refuse("No topicpartitions to assign", "assign is not valid JSON")),
    "assign a partition that is not there": (
        {"assign": '{"side-by-side": [1, 7]}'},
        Differ(3, "topic side-by-side has 2 partitions, no partition 7", "it would be left out, without an error"),
    ),
    "none": ({}, Refuse("One of the following options must be specified", "exactly one of subscribe, assign")),
    "two": (
        {"subscribe": "side-by-side", "subscribePattern": "side-by-side"},
        Refuse("Only one of the following options", "exactly one of subscribe, assign"),
    ),
}

CASES: Mapping[str, tuple[Mapping[str, str], Outcome]] = {
    "without pushdown, which is the default": ({"filterPushdown": "false"}, Both(LEFT)),
    "offsets": (
        {
            "startingOffsets": '{"side-by-side": {"0": 2, "1": -2}}',
            "endingOffsets": '{"side-by-side": {"0": 4, "1": -1}}',
        },
        Both(5),
    ),
    "offsets as words": ({"startingOffsets": "Earliest", "endingOffsets": "Latest"}, Both(LEFT)),
    "latest to start with": (
        {"startingOffsets": "latest"},
        Refuse("starting offset can't be latest", "startingOffsets=latest reads nothing in a batch"),
    ),
    "latest to start with, as a number": (
        {"startingOffsets": '{"side-by-side": {"0": -1, "1": 0}}'},
        Refuse("can't be latest", "startingOffsets: side-by-side-0 has -1"),
    ),
    "earliest to end with": (
        {"endingOffsets": "earliest"},
        Refuse("ending offset can't be earliest", "endingOffsets=earliest reads nothing"),
    ),
    "offsets for a part of the partitions": (
        {"startingOffsets": '{"side-by-side": {"0": 2}}'},
        Refuse("side-by-side-1", "startingOffsets has no value for side-by-side-1"),
    ),
    "offsets that end before they start": (
        {
            "startingOffsets": '{"side-by-side": {"0": 4, "1": 0}}',
            "endingOffsets": '{"side-by-side": {"0": 3, "1": 1}}',
        },
        Refuse(
            "start offset 4 is greater than the end offset 3", "side-by-side-0 ends (endingOffsets: 3) before it starts"
        ),
    ),
    "timestamps that end before they start": (
        {"startingTimestamp": f"{NOW + 2}", "endingTimestamp": f"{NOW + 1}"},
        Refuse(IS_GREATER, f"endingTimestamp={NOW + 1} is before startingTimestamp={NOW + 2}"),
    ),
    "an offset after the timestamp where to end": (
        {"startingOffsets": '{"side-by-side": {"0": 4, "1": 0}}', "endingTimestamp": f"{NOW + 1}"},
        Refuse(IS_GREATER, "side-by-side-0 ends (endingTimestamp: offset"),
    ),
    "an end that is deleted": (
        {"endingOffsets": '{"side-by-side": {"0": 0, "1": -1}}'},
        Refuse(
            IN_A_TASK, "side-by-side-0 begins at offset 1: all records before offset 0 (endingOffsets) were deleted"
        ),
    ),
    "an end that is deleted, which does not matter": (
        {"endingOffsets": '{"side-by-side": {"0": 0, "1": -1}}', "failOnDataLoss": "false"},
        Differ(IN_A_TASK, 3, "the records are gone, and that does not matter"),
    ),
    "a start behind the end": (
        {"startingOffsets": '{"side-by-side": {"0": 9, "1": 0}}', "failOnDataLoss": "false"},
        Refuse(IN_A_TASK, "startingOffsets: side-by-side-0 ends at offset 5, before 9"),
    ),
    "no waits between attempts": (
        {
            "kafka.client.id": "",
            "kafka.retry.backoff.ms": "0",
            "kafka.reconnect.backoff.ms": "0",
            "kafka.metadata.max.age.ms": "0",
            "kafka.fetch.max.bytes": "0",
            "kafka.max.partition.fetch.bytes": "0",
            "fetchOffset.retryIntervalMs": "-1",
        },
        Both(LEFT),
    ),
    "options of a producer": ({"kafka.acks": "all", "kafka.linger.ms": "5"}, Both(LEFT)),
    "offsets that are no JSON": (
        {"startingOffsets": "first"},
        Refuse("Expected e.g.", "startingOffsets is not valid JSON"),
    ),
    "timestamps": ({"startingTimestamp": f"{NOW + 1}", "endingTimestamp": f"{NOW + 3}"}, Both(4)),
    "timestamps of partitions": (
        {
            "startingOffsetsByTimestamp": f'{{"side-by-side": {{"0": {NOW + 3}, "1": {NOW}}}}}',
            "endingOffsetsByTimestamp": f'{{"side-by-side": {{"0": {NOW + 9}, "1": {NOW + 2}}}}}',
        },
        Both(4),
    ),
    "a timestamp for all goes before others": (
        {"startingTimestamp": f"{NOW + 2}", "startingOffsetsByTimestamp": "{}", "startingOffsets": "latest"},
        Both(4),
    ),
    "a timestamp without a record": (
        {"startingTimestamp": f"{NOW + 3}"},
        Refuse("side-by-side-1", f"startingTimestamp: side-by-side-1 has no record with timestamp {NOW + 3}"),
    ),
    "a timestamp without a record, by strategy": (
        {"startingTimestamp": f"{NOW + 3}", "startingOffsetsByTimestampStrategy": "latest"},
        Both(2),
    ),
    "no timestamp": ({"startingTimestamp": "today"}, Refuse("Expected a single long value", "startingTimestamp=")),
    "no strategy": (
        {"startingTimestamp": f"{NOW}", "startingOffsetsByTimestampStrategy": "earliest"},
        Refuse("EARLIEST", "startingOffsetsByTimestampStrategy='earliest'"),
    ),
    "many tasks": ({"minPartitions": "5"}, Both(LEFT)),
    "small tasks": ({"maxRecordsPerPartition": "2"}, Both(LEFT)),
    "no tasks": ({"minPartitions": "0"}, Refuse("minPartitions must be positive", "minPartitions='0'")),
    "no small tasks": (
        {"maxRecordsPerPartition": "0"},
        Refuse("maxrecordsperpartition must be positive", "maxRecordsPerPartition='0'"),
    ),
    "headers": ({"includeHeaders": "TRUE"}, Both(LEFT)),
    "headers, perhaps": ({"includeHeaders": "yes"}, Refuse("yes", "includeHeaders='yes'")),
    "deleted records": (
        {"startingOffsets": '{"side-by-side": {"0": 0, "1": 0}}'},
        Refuse(IN_A_TASK, "side-by-side-0 begins at offset 1: 1 offsets from 0 on were deleted"),
    ),
    "deleted records, which do not matter": (
        {"startingOffsets": '{"side-by-side": {"0": 0, "1": 0}}', "failOnDataLoss": "false"},
        Both(LEFT),
    ),
    "data loss, perhaps": ({"failOnDataLoss": "maybe"}, Refuse("maybe", "failOnDataLoss='maybe'")),
    "patience": (
        {
            "kafkaConsumer.pollTimeoutMs": "60000",
            "fetchOffset.numRetries": "5",
            "fetchOffset.retryIntervalMs": "10",
        },
        Both(LEFT),
    ),
    "options of the client": (
        {
            "kafka.client.id": "job",
            "kafka.connections.max.idle.ms": "60000",
            "kafka.default.api.timeout.ms": "50000",
            "kafka.metadata.max.age.ms": "30000",
            "kafka.reconnect.backoff.ms": "2000",
            "kafka.request.timeout.ms": "40000",
            "kafka.retry.backoff.ms": "5000",
            "kafka.security.protocol": "PLAINTEXT",
            "kafka.socket.connection.setup.timeout.ms": "10000",
            "kafka.ssl.endpoint.identification.algorithm": "https",
        },
        Both(LEFT),
    ),
    "options of fetching": (
        {
            "kafka.isolation.level": "read_committed",
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.fetch.max.bytes": "1000",
            "kafka.fetch.max.wait.ms": "100",
            "kafka.fetch.min.bytes": "1",
            "kafka.check.crcs": "false",
        },
        Both(LEFT),
    ),
    "isolation in capitals": (
        {"kafka.isolation.level": "READ_COMMITTED"},
        Differ(IN_A_TASK, LEFT, "words are taken in any case"),
    ),
    "no isolation": ({"kafka.isolation.level": "some"}, Refuse(IN_A_TASK, "kafka.isolation.level='some'")),
    "no number": (
        {"kafka.request.timeout.ms": "soon"},
        Refuse("request.timeout.ms", "kafka.request.timeout.ms='soon'"),
    ),
    "connections that are never closed": (
        {"kafka.connections.max.idle.ms": "-1"},
        Differ(LEFT, "kafka.connections.max.idle.ms=-1", "idle connections are closed at some time"),
    ),
    "no brokers": ({"kafka.bootstrap.servers": " "}, Refuse("bootstrap", "kafka.bootstrap.servers is required")),
    "controllers": (
        {"kafka.bootstrap.controllers": "127.0.0.1:1"},
        Refuse("bootstrap.controllers", "kafka.bootstrap.controllers cannot be set"),
    ),
    "a misspelt option": (
        {"startingOffset": "latest"},
        Differ(LEFT, "unknown option 'startingoffset'; did you mean 'startingOffsets'?", TYPO),
    ),
    "a misspelt option of the client": (
        {"kafka.isolation_level": "read_committed"},
        Differ(LEFT, "unknown option 'kafka.isolation_level'; did you mean 'kafka.isolation.level'?", TYPO),
    ),
    "columns": ({"columns": "value"}, Differ(LEFT, LEFT, "the official connector has no such option")),
    "SASL without it": (
        {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": "secret"},
        Differ(LEFT, "cannot be set: SASL is not supported yet", UNPROTECTED),
    ),
    "TLS without it": (
        {"kafka.ssl.truststore.location": "/trusted.jks", "kafka.ssl.truststore.password": "secret"},
        Differ(LEFT, "SSL_CERT_FILE", UNPROTECTED),
    ),
    "SASL": (
        {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"},
        Refuse("JAAS", "SASL is not supported yet"),
    ),
    **{
        f"kafka.{name}": ({f"kafka.{name}": "false"}, Refuse(name, f"kafka.{name} cannot be set"))
        for name in (
            "auto.offset.reset",
            "enable.auto.commit",
            "interceptor.classes",
            "key.deserializer",
            "value.deserializer",
        )
    },
}

HARMLESS = {
    # A consumer does not look at what is a producer's.
    **{
        name: "1"
        for name, reason in READING.without_effect.items()
        if reason == FOR_WRITING and name.startswith("kafka.")
    },
    "groupIdPrefix": "job",
    "maxOffsetsPerTrigger": "1",
    "minOffsetsPerTrigger": "1",
    "maxTriggerDelay": "1s",
    "path": "other",
    "topic": "other",
    "kafka.allow.auto.create.topics": "false",
    "kafka.auto.commit.interval.ms": "1000",
    "kafka.auto.include.jmx.reporter": "false",
    "kafka.client.dns.lookup": "use_all_dns_ips",
    "kafka.client.rack": "a",
    "kafka.enable.metrics.push": "false",
    "kafka.exclude.internal.topics": "true",
    "kafka.group.id": "job",
    "kafka.group.instance.id": "one",
    "kafka.group.protocol": "classic",
    "kafka.heartbeat.interval.ms": "2000",
    "kafka.internal.leave.group.on.close": "true",
    "kafka.internal.throw.on.fetch.stable.offset.unsupported": "false",
    "kafka.max.poll.interval.ms": "200000",
    "kafka.max.poll.records": "2",
    "kafka.metadata.recovery.rebootstrap.trigger.ms": "100000",
    "kafka.metadata.recovery.strategy": "none",
    "kafka.metric.reporters": "",
    "kafka.metrics.num.samples": "3",
    "kafka.metrics.recording.level": "INFO",
    "kafka.metrics.sample.window.ms": "20000",
    "kafka.partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    "kafka.receive.buffer.bytes": "100000",
    "kafka.retries": "3",
    "kafka.send.buffer.bytes": "100000",
    "kafka.session.timeout.ms": "20000",
    "kafka.share.acknowledgement.mode": "implicit",
    "kafka.share.acquire.mode": "batch_optimized",
    "kafka.socket.connection.setup.timeout.max.ms": "20000",
}
"""Values of the options without effect, save those that exclude others."""


@pytest.fixture(scope="module", autouse=True)
def filled(kafka: Kafka) -> None:
    kafka.create_topic(TOPIC, 2)
    kafka.produce(TOPIC, 0, some_records(1))
    kafka.produce(TOPIC, 0, some_records(4, 1))
    kafka.produce(TOPIC, 1, some_records(3))
    kafka.delete_records(TOPIC, 0, 1)


def outcome(spark: SparkSession, connector: str, options: Mapping[str, str]) -> Any:
    """The rows, in order, or what was refused."""
    try:
        rows = spark.read.format(connector).options(**options).load().collect()
    except Exception as error:  # noqa: BLE001
        return str(error)
    return sorted(map(tuple, rows), key=lambda row: row[2:5])


def compare(official: SparkSession, kafka: Kafka, options: Mapping[str, str], expected: Outcome) -> None:
    given = kafka.options(**options)
    theirs, ours = outcome(official, "kafka", given), outcome(official, "aiokproto", given)
    if isinstance(expected, Both):
        assert theirs == ours
        expected = Differ(expected.rows, expected.rows, "")
    for found, wanted in ((theirs, expected.official), (ours, expected.ours)):
        if isinstance(wanted, int):
            assert isinstance(found, list), found
            assert len(found) == wanted
        else:
            assert isinstance(found, str), found
            assert wanted in found


@pytest.mark.parametrize("name", SELECTIONS)
def test_which_records_are_read(official: SparkSession, kafka: Kafka, name: str) -> None:
    compare(official, kafka, *SELECTIONS[name])


@pytest.mark.parametrize("name", CASES)
def test_options(official: SparkSession, kafka: Kafka, name: str) -> None:
    options, expected = CASES[name]
    compare(official, kafka, {"subscribe": TOPIC, **options}, expected)


def test_options_without_effect(official: SparkSession, kafka: Kafka) -> None:
    assert READING.without_effect.keys() - HARMLESS.keys() == {"kafka.group.remote.assignor"}
    assert HARMLESS.keys() <= READING.without_effect.keys()
    compare(official, kafka, {"subscribe": TOPIC, **HARMLESS}, Both(LEFT))


def test_each_option_of_the_connector_is_compared() -> None:
    compared = {name for table in (SELECTIONS, CASES) for options, _ in table.values() for name in options}
    assert {name for name in READING.honoured if not name.startswith("kafka.")} <= compared
