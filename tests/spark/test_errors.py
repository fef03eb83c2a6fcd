"""Errors as Spark shows them: the whole text of ours, on one screen."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError
from aiokproto.spark.planning import TopicChangedError, plan_now
from aiokproto.spark.reading import read_range
from aiokproto.spark.worker import Worker
from tests.patience import PATIENCE
from tests.spark.kafka import Kafka
from tests.spark.test_reading import rows, some_records

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCREEN = 12
"""Lines."""

QUICK = {"kafka.retry.backoff.ms": "10", "kafka.retry.backoff.max.ms": "20"}
"""Options of a client that soon believes that a topic does not exist: it asks several times."""


@pytest.fixture
def filled(kafka: Kafka, topic: str) -> str:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(5))
    return topic


@pytest.fixture
def load(spark: SparkSession, kafka: Kafka) -> Any:
    def frame(**options: str) -> DataFrame:
        return spark.read.format("aiokproto").options(**kafka.options(**options)).load()

    return frame


def shown(action: Callable[[], object], message: str) -> None:
    """The action fails, and its text, which fits on a screen, has a line with the message."""
    with pytest.raises(Exception) as caught:
        action()
    lines = str(caught.value).rstrip().splitlines()
    assert any(line.endswith(message) for line in lines), lines
    assert len(lines) <= SCREEN
    assert "During handling" not in str(caught.value)


@pytest.mark.spark
def test_options(load: Any) -> None:
    shown(lambda: load(subscribee="t"), "ConfigurationError: unknown option 'subscribee'; did you mean 'subscribe'?")
    shown(lambda: load(minPartitions="0"), "ConfigurationError: minPartitions='0': must be at least 1")
    shown(
        lambda: load().collect(),
        "ConfigurationError: exactly one of subscribe, assign and subscribePattern is required, got none of them",
    )
    shown(
        lambda: load(**{"kafka.sasl.login.class": "secret"}),
        "ConfigurationError: kafka.sasl.login.class cannot be set: Java classes cannot be used",
    )


@pytest.mark.spark
def test_a_schema(spark: SparkSession, kafka: Kafka, filled: str) -> None:
    reader = spark.read.format("aiokproto").options(**kafka.options(subscribe=filled)).schema("value string")
    shown(
        lambda: reader.load().collect(),
        "ConfigurationError: schema: value string is not a column; valid are key binary, value binary, topic string, "
        "partition int, offset bigint, timestamp timestamp, timestampType int",
    )


@pytest.mark.spark
def test_planning(load: Any, kafka: Kafka, filled: str) -> None:
    shown(
        lambda: load(subscribe="no-such-topic", **QUICK).collect(),
        "UnknownTopicError: topic 'no-such-topic': UNKNOWN_TOPIC_OR_PARTITION (3): "
        "it does not exist, or this client may not see it",
    )
    unreachable = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.bootstrap.resolve.timeout.ms": "0"}
    shown(
        lambda: load(subscribe=filled, **unreachable).collect(),
        "BootstrapError: no bootstrap address could be used: 127.0.0.1:1: "
        "cannot connect to 127.0.0.1:1: 127.0.0.1: connection refused; "
        "check bootstrap_servers and security_protocol",
    )
    kafka.delete_records(filled, 0, 2)
    shown(
        lambda: load(subscribe=filled, startingOffsets=f'{{"{filled}": {{"0": 0}}}}').collect(),
        f"DataLossError: {filled}-0 begins at offset 2: 2 offsets from 0 on were deleted. "
        "Set failOnDataLoss=false to continue at offset 2",
    )


def planned(frame: DataFrame) -> Any:
    """A collect whose tasks are planned already."""
    rdd = frame.rdd
    assert rdd.getNumPartitions() == 1
    return rdd.collect


@pytest.mark.spark
def test_records_that_go_after_planning(load: Any, kafka: Kafka, filled: str) -> None:
    collect = planned(load(subscribe=filled))
    kafka.delete_records(filled, 0, 2)
    shown(
        collect,
        f"DataLossError: reading {filled}-0 offsets 0 to 5: 2 offsets from 0 on were deleted: the log begins at "
        "offset 2. Set failOnDataLoss=false to continue there",
    )


@pytest.mark.extended
@pytest.mark.spark
def test_a_topic_deleted_after_planning(load: Any, kafka: Kafka, filled: str) -> None:
    collect = planned(load(subscribe=filled, **QUICK))
    kafka.delete_topic(filled)
    shown(
        collect,
        f"TopicChangedError: reading {filled}-0 offsets 0 to 5: the topic was deleted after the read was planned",
    )
    kafka.create_topic(filled)
    shown(collect, ": it was deleted and created again after the read was planned")


@pytest.mark.extended
@pytest.mark.spark
def test_a_task_that_gets_nothing(load: Any, kafka: Kafka, filled: str) -> None:
    collect = planned(load(subscribe=filled, **{"kafkaConsumer.pollTimeoutMs": "100"}))
    with kafka.broker.faults.fail(FetchRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER, topic=filled):
        shown(collect, "NOT_LEADER_OR_FOLLOWER (6)")


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Callable[[Any], None]]:
    """Runs a streaming query until it fails."""
    queries: list[Any] = []

    def run(writer: Any) -> None:
        query = writer.option("checkpointLocation", str(tmp_path / str(len(queries)))).start()
        queries.append(query)
        assert query.awaitTermination(PATIENCE)

    yield run
    for query in queries:
        query.stop()


@pytest.mark.spark
def test_writes_and_streams_without_a_cluster(load: Any, spark: SparkSession, filled: str, stream: Any) -> None:
    missing = "ConfigurationError: kafka.bootstrap.servers is required: host:port[,host:port…]"
    shown(lambda: load(subscribe=filled).write.format("aiokproto").mode("append").save(), missing)
    for query in (
        spark.readStream.format("aiokproto").load().writeStream.format("noop"),
        spark.readStream.format("rate").load().selectExpr("'v' AS value").writeStream.format("aiokproto"),
    ):
        with pytest.raises(Exception, match=re.escape(missing)) as caught:
            stream(query)
        assert "UnboundLocalError" not in str(caught.value)


def test_a_bug_keeps_its_traceback() -> None:
    from aiokproto.spark.entry_points import without_traceback

    def deep(error: Exception) -> None:
        raise error

    @without_traceback
    def method(error: Exception) -> None:
        deep(error)

    frames = {}
    for error in (KafkaError("for users"), ZeroDivisionError("a bug")):
        with pytest.raises(type(error)) as caught:
            method(error)
        frames[type(error)] = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][1:]
    assert frames == {KafkaError: ["call"], ZeroDivisionError: ["call", "method", "deep"]}


def test_a_deleted_topic_is_an_error_at_once(kafka: Kafka, worker: Worker, filled: str) -> None:
    """The same for a topic that the worker has cached in an earlier task."""
    options = kafka.read_options(subscribe=filled, **QUICK)
    (wanted,) = plan_now(options).ranges
    assert len(list(read_range(worker, wanted, options))) == 1
    kafka.delete_topic(filled)
    with pytest.raises(
        TopicChangedError, match=f"reading {filled}-0 offsets 0 to 5: the topic was deleted after the read"
    ):
        list(read_range(worker, wanted, options))


def test_an_unknown_topic_error_for_a_new_topic_is_retried(kafka: Kafka, worker: Worker, filled: str) -> None:
    options = kafka.read_options(subscribe=filled, includeHeaders="true")
    (wanted,) = plan_now(options).ranges
    stale, moved = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER
    with (
        kafka.broker.faults.fail(MetadataRequest, stale, topic=filled, times=3) as metadata_requests,
        kafka.broker.faults.fail(FetchRequest, moved, topic=filled, times=1) as fetched,
    ):
        assert rows(read_range(worker, wanted, options)) == some_records(5)
    assert (metadata_requests.count, fetched.count) == (3, 1)
