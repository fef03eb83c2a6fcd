"""Streams in Spark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokproto.records import BatchRecord
from aiokproto.spark import commit_group_offsets
from tests.spark.kafka import Kafka
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


class Run:
    """A query that writes the offsets it reads, batch by batch, and can be started again from its checkpoint."""

    def __init__(self, spark: SparkSession, kafka: Kafka, topic: str, folder: Path) -> None:
        self._spark, self._kafka, self._topic = spark, kafka, topic
        self._checkpoint = folder / "checkpoint"
        self.batches: list[list[tuple[int, int]]] = []
        self.fails = False

    def __call__(self, **options: str) -> StreamingQuery:
        """Run until all that is there now is read."""
        given = {"subscribe": self._topic, "startingOffsets": "earliest", **options}
        rows = self._spark.readStream.format("aiokproto").options(**self._kafka.options(**given)).load()

        def write(frame: DataFrame, _: int) -> None:
            if self.fails:
                raise RuntimeError("the sink fails")
            self.batches.append(sorted((row.partition, row.offset) for row in frame.collect()))

        query = (
            rows.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(4 * int(LONG_TIMEOUT)), "the query is stuck"
        finally:
            query.stop()
        return query

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """All records that were read, sorted. A record that was read twice is there twice."""
        return sorted(pair for batch in self.batches for pair in batch)


@pytest.fixture
def run(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> Run:
    return Run(spark, kafka, topic, tmp_path)


def write(kafka: Kafka, topic: str, partition: int, first: int, count: int) -> None:
    kafka.produce(topic, partition, [BatchRecord(first + n, 1000, None, b"v") for n in range(count)])


def committed(kafka: Kafka, topic: str) -> dict[int, int]:
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=f"{topic}-monitor", topics=[wanted])])
    (group,) = kafka.run(kafka.client.request(request, max_version=9)).groups
    return {one.partition_index: one.committed_offset for one in group.topics[0].partitions}


def eventually(read: Callable[[], Any], expected: Any) -> bool:
    """Return whether ``read()`` returns the expected value soon. Spark calls listeners in a thread of its own."""
    until = time.monotonic() + LONG_TIMEOUT
    while time.monotonic() < until:
        if read() == expected:
            return True
        threading.Event().wait(0.05)
    return False


def all_of(partition: int, end: int, begin: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(begin, end)]


def test_a_limited_run_reads_all_in_several_batches_and_the_next_one_nothing(
    kafka: Kafka, topic: str, run: Run
) -> None:
    kafka.create_topic(topic, 2)
    write(kafka, topic, 0, 0, 12)
    write(kafka, topic, 1, 0, 9)
    run(maxOffsetsPerTrigger="8")
    assert [len(batch) for batch in run.batches] == [7, 7, 7]
    assert run.offsets == all_of(0, 12) + all_of(1, 9)
    run(maxOffsetsPerTrigger="8")
    assert len(run.offsets) == 21
    write(kafka, topic, 1, 9, 2)
    kafka.add_partitions(topic, 3)
    write(kafka, topic, 2, 0, 1)
    run()
    assert run.offsets == all_of(0, 12) + all_of(1, 11) + all_of(2, 1)


def test_no_record_is_lost_if_the_first_batch_fails(kafka: Kafka, topic: str, run: Run) -> None:
    kafka.create_topic(topic, 1)
    run.fails = True
    write(kafka, topic, 0, 0, 5)
    with pytest.raises(Exception, match="the sink fails"):
        run(startingOffsets=f'{{"{topic}": {{"0": 2}}}}')
    write(kafka, topic, 0, 5, 5)
    run.fails = False
    run(startingOffsets="latest")
    assert run.batches[0] == all_of(0, 5, begin=2)
    assert run.offsets == all_of(0, 10, begin=2)


@pytest.mark.extended
def test_a_query_that_found_nothing_continues_where_it_started(kafka: Kafka, topic: str, run: Run) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 3)
    run(startingOffsets="latest")
    write(kafka, topic, 0, 3, 4)
    run(startingOffsets="latest")
    assert run.offsets == all_of(0, 7, begin=3)


@pytest.mark.extended
def test_progress_shows_offsets_and_how_far_the_log_goes(kafka: Kafka, topic: str, run: Run) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 6)
    progress = run(maxOffsetsPerTrigger="4").recentProgress
    source = next(one for one in progress if one["numInputRows"])["sources"][0]
    assert json.loads(source["endOffset"])["topics"] == {topic: {"0": 4}}
    assert json.loads(source["latestOffset"])["topics"] == {topic: {"0": 6}}


def test_a_group_has_the_offsets_of_the_last_batch(
    spark: SparkSession, kafka: Kafka, topic: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, 2)
    write(kafka, topic, 0, 0, 3)
    write(kafka, topic, 1, 0, 5)
    listener = commit_group_offsets(spark, f"{topic}-monitor", bootstrap_servers=kafka.bootstrap_servers)
    try:
        run(maxOffsetsPerTrigger="6")
        assert eventually(lambda: committed(kafka, topic), {0: 3, 1: 5})
    finally:
        spark.streams.removeListener(listener)
    assert not [one for one in caplog.records if "not committed" in one.message]


@pytest.mark.extended
def test_a_stream_has_the_columns_and_headers_of_a_batch(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, 1)
    kafka.produce(topic, 0, [BatchRecord(0, 5, b"k", b"v", (("h", b"1"),)), BatchRecord(1, 6, None, None, ())], "zstd")
    options = kafka.options(
        subscribe=topic, startingOffsets="earliest", includeHeaders="true", columns="offset,key,headers"
    )
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    rows = spark.readStream.format("aiokproto").options(**options).load()
    query = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(out)
    try:
        assert query.awaitTermination(4 * int(LONG_TIMEOUT)), "the query is stuck"
    finally:
        query.stop()
    found = spark.read.parquet(out).orderBy("offset").collect()
    assert [one.asDict(recursive=True) for one in found] == [
        {"offset": 0, "key": b"k", "headers": [{"key": "h", "value": b"1"}]},
        {"offset": 1, "key": None, "headers": None},
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for a batch: a stream has no end"),
        pytest.param({"startingOffsets": '{"t": {}}'}, "startingOffsets", marks=pytest.mark.extended),
    ],
)
def test_mistakes_are_one_error(kafka: Kafka, topic: str, run: Callable[..., Any], options: Any, problem: str) -> None:
    kafka.create_topic(topic, 1)
    with pytest.raises(Exception, match=problem):
        run(**options)


@pytest.mark.extended
def test_a_topic_that_does_not_exist_is_one_error(topic: str, run: Run) -> None:
    with pytest.raises(Exception, match=f"UnknownTopicError.*{topic}"):
        run()
