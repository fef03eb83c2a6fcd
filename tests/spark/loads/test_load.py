"""Loads: the rows in the output, with and without failures."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark import load, read, runs
from aiokproto.spark.loads.commits import CommitLog, commit_name
from aiokproto.spark.loads.history import ConflictError, SchemaError
from aiokproto.spark.loads.manifest import ManifestError
from aiokproto.spark.loads.opening import open_storage
from aiokproto.spark.offsets import DataLossError
from aiokproto.spark.planning import TopicChangedError
from tests.spark.kafka import Kafka
from tests.spark.loads.output import Output, expected, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def failing(frame: DataFrame) -> DataFrame:
    # Only the type of assert_true is unknown to Parquet.
    return frame.selectExpr("*", "isnull(assert_true(offset < 8, 'no luck')) AS checked")


def test_a_load_has_every_row_with_its_offset(output: Output) -> None:
    result = output.load()
    assert output.rows() == expected(10, 5)
    assert result.rows == 15
    assert [(one.partition, one.start, one.end, one.rows) for one in result.partitions] == [
        (0, 0, 10, 10),
        (1, 0, 5, 5),
    ]
    (manifest,) = runs(output.path)
    assert manifest.run_id == result.run_id
    assert manifest.partitions == result.partitions
    assert manifest.cluster_id == output.kafka.client.snapshot.cluster_id
    assert read(output.spark, output.path).columns[:7] == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]


def test_the_next_load_continues_where_the_last_one_ended(output: Output) -> None:
    output.load()
    output.kafka.produce(output.topic, 1, numbered(3, 5))
    result = output.load()
    assert [(one.partition, one.start, one.end, one.rows) for one in result.partitions] == [
        (0, 10, 10, 0),
        (1, 5, 8, 3),
    ]
    assert output.rows() == expected(10, 8)
    assert [manifest.number for manifest in runs(output.path)] == [1, 2]


@pytest.mark.extended
def test_a_file_that_is_not_in_the_manifest_is_ignored(output: Output) -> None:
    output.load()
    for path in [*output.path.glob("run=*/part-*.parquet")]:
        shutil.copy(path, path.with_name(f"twice-{path.name}"))
    assert output.rows() == expected(10, 5)


@pytest.mark.extended
def test_nothing_new_writes_nothing(output: Output) -> None:
    output.load()
    before = output.data()
    result = output.load()
    assert (result.run_id, result.rows) == (None, 0)
    assert output.data() == before
    assert len(runs(output.path)) == 1


def test_a_load_that_fails_leaves_nothing_that_counts(output: Output) -> None:
    with pytest.raises(Exception, match="no luck"):
        output.load(transform=failing)
    assert runs(output.path) == []
    assert output.data() == set()
    with pytest.raises(ManifestError, match="nothing was loaded"):
        read(output.spark, output.path)
    output.load()
    assert output.rows() == expected(10, 5)


@pytest.mark.extended
def test_files_of_a_driver_that_died_do_not_count(output: Output) -> None:
    output.load()
    (committed,) = output.data()
    stray = output.path / "run=000002-dead"
    stray.mkdir()
    for file in (output.path / committed).glob("part-*"):
        (stray / file.name).write_bytes(file.read_bytes())
    output.kafka.produce(output.topic, 0, numbered(1, 10))
    output.load()
    assert output.rows() == expected(11, 5)


def test_a_rerun_reads_the_same_offsets_and_replaces_the_rows(output: Output) -> None:
    first = output.load()
    output.kafka.produce(output.topic, 0, numbered(4, 10))
    output.load()
    again = output.rerun(first.run_id, transform=lambda frame: frame.selectExpr("*", "offset + 1 AS next"))
    assert again == first
    assert output.rows() == expected(14, 5)
    nexts = read(output.spark, output.path).where("next = offset + 1").count()
    assert nexts == 15
    assert [manifest.attempt for manifest in runs(output.path)] == [2, 1]
    assert output.rerun(first.run_id) == first
    assert output.rows() == expected(14, 5)


@pytest.mark.extended
def test_a_rerun_keeps_the_time_of_the_load(output: Output) -> None:
    first = output.load()
    there = open_storage(output.path)
    early = replace(CommitLog(there).manifest(1), created="2026-01-01T00:00:00+00:00")
    there.write(commit_name(1), early.to_text())
    output.rerun(first.run_id)
    assert [(one.number, one.created) for one in runs(output.path)] == [(2, early.created)]


@pytest.mark.extended
def test_a_failed_rerun_leaves_the_rows_unchanged(output: Output) -> None:
    first = output.load()
    with pytest.raises(Exception, match="no luck"):
        output.rerun(first.run_id, transform=failing)
    assert output.rows() == expected(10, 5)


def test_a_rerun_of_deleted_records_fails(output: Output) -> None:
    first = output.load()
    output.kafka.delete_records(output.topic, 0, 4)
    with pytest.raises(
        DataLossError, match=r"^run 000001-\w+: .* 4 offsets from 0 on were deleted.*allow_fewer_rows=True"
    ):
        output.rerun(first.run_id)
    assert output.rows() == expected(10, 5)


def test_a_rerun_with_fewer_rows_is_refused_by_default(output: Output) -> None:
    first = output.load()
    output.kafka.delete_records(output.topic, 0, 4)
    loss = {"failOnDataLoss": "false"}
    with pytest.raises(DataLossError, match=r"has rows of 4 records .* no longer have.*allow_fewer_rows=True"):
        output.rerun(first.run_id, options=loss)
    assert output.rows() == expected(10, 5)
    assert len(output.data()) == 1
    assert output.rerun(first.run_id, allow_fewer_rows=True).rows == 11
    assert output.rows() == [*expected(10)[4:], *expected(0, 5)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("subscribe", "use topics="),
        ("Assign", "use topics="),
        ("startingOffsets", "the manifests define where to start"),
        ("kafka.bootstrap.servers", "use bootstrap_servers="),
    ],
)
def test_options_that_arguments_decide_are_refused(output: Output, name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"options: {name} cannot be set: {text}"):
        output.load(options={name: "x"})
    assert runs(output.path) == []


@pytest.mark.extended
def test_options_need_not_be_text(output: Output) -> None:
    output.load(options={"includeHeaders": True, "minPartitions": 3})
    assert "headers" in read(output.spark, output.path).columns


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (lambda rows: None, "transform must return a DataFrame, got NoneType"),
        (lambda rows: rows.selectExpr("topic", "partition", "offset + 1000 AS offset"), "must not change offset"),
        (
            lambda rows: rows.selectExpr("'other' AS topic", "partition", "offset"),
            "must not change topic and partition",
        ),
    ],
)
def test_a_wrong_transform_is_an_error(output: Output, transform: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        output.load(transform=transform)
    assert runs(output.path) == []


def test_a_column_keeps_its_type(output: Output) -> None:
    def with_column(kind: str) -> Any:
        return lambda rows: rows.selectExpr("topic", "partition", "offset", f"cast(1 AS {kind}) AS n")

    first = output.load(transform=with_column("int"))
    output.kafka.produce(output.topic, 0, numbered(2, 10))
    text = "this load: column 'n' is string, but int in the output"
    with pytest.raises(SchemaError, match=text):
        output.load(transform=with_column("string"))
    assert len(output.data()) == 1
    assert read(output.spark, output.path).count() == 15
    # It fails before it reads a row: reading one would raise another error.
    with pytest.raises(SchemaError, match=text):
        output.load(transform=lambda rows: failing(with_column("string")(rows)))
    # The only load that has it may give it another one.
    output.rerun(first.run_id, transform=with_column("string"))
    output.load(transform=with_column("string"))
    assert read(output.spark, output.path).schema["n"].dataType.simpleString() == "string"
    with pytest.raises(SchemaError, match="column 'n' is bigint, but string in the output"):
        output.rerun(first.run_id, transform=with_column("bigint"))


@pytest.mark.extended
def test_structs_may_grow(output: Output) -> None:
    position = "topic, partition, offset"
    output.load(transform=lambda rows: rows.selectExpr(*position.split(", "), "struct(1 AS a) AS s"))
    output.kafka.produce(output.topic, 0, numbered(2, 10))
    output.load(transform=lambda rows: rows.selectExpr(*position.split(", "), "struct('x' AS b, 2 AS a) AS s"))
    found = read(output.spark, output.path).selectExpr("s.a", "s.b").distinct().collect()
    assert {(row[0], row[1]) for row in found} == {(1, None), (2, "x")}


def test_an_output_is_a_directory_and_a_load_has_topics(output: Output, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="is a file"):
        load(output.spark, output.topic, tmp_path / "file", bootstrap_servers=output.kafka.bootstrap_servers)
    with pytest.raises(ConfigurationError, match="topics is empty"):
        load(output.spark, [], tmp_path / "out", bootstrap_servers=output.kafka.bootstrap_servers)


@pytest.mark.extended
def test_a_rerun_counts_records_that_its_transform_reads_twice_once(output: Output) -> None:
    first = output.load(transform=lambda rows: rows.crossJoin(rows.limit(1).selectExpr("timestamp AS t0")))
    assert first.rows == 15
    output.kafka.delete_records(output.topic, 0, 4)
    with pytest.raises(DataLossError, match="has rows of 4 records that the topics no longer have"):
        output.rerun(first.run_id, options={"failOnDataLoss": "false"}, transform=lambda rows: rows)
    assert output.rows() == expected(10, 5)


@pytest.mark.extended
def test_a_rerun_against_another_cluster_is_refused(output: Output) -> None:
    first = output.load()
    there = open_storage(output.path)
    there.write(commit_name(1), replace(CommitLog(there).manifest(1), cluster_id="another").to_text())
    with pytest.raises(TopicChangedError, match="expected another"):
        output.rerun(first.run_id)


@pytest.mark.extended
def test_a_damaged_file_is_an_error_with_any_session_config(output: Output) -> None:
    output.load()
    for file in output.path.glob("run=*/part-*.parquet"):
        file.write_bytes(b"PAR1 and nothing else")
    output.spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(Exception, match=r"(?i)parquet"):
            output.rows()
    finally:
        output.spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


@pytest.mark.extended
@pytest.mark.parametrize("condition", ["1 = 0", "offset > 1000"])
def test_a_transform_that_leaves_nothing(output: Output, condition: str) -> None:
    result = output.load(transform=lambda rows: rows.where(condition).orderBy("offset"))
    assert (result.rows, [one.end for one in result.partitions]) == (0, [10, 5])
    assert output.rows() == []
    output.kafka.produce(output.topic, 1, numbered(2, 5))
    assert output.load().rows == 2


@pytest.mark.parametrize("changed", ["cast(offset AS int) AS offset", "cast(offset AS decimal(20,0)) AS offset"])
def test_a_transform_must_keep_the_types_of_where_rows_come_from(output: Output, changed: str) -> None:
    with pytest.raises(ConfigurationError, match="must not change offset"):
        output.load(transform=lambda rows: rows.selectExpr("topic", "partition", changed))
    assert runs(output.path) == []


@pytest.mark.extended
def test_a_rerun_misses_what_transform_had_left_out(output: Output) -> None:
    first = output.load(transform=lambda rows: rows.where("offset >= 4"))
    output.kafka.delete_records(output.topic, 0, 4)
    with pytest.raises(DataLossError, match="had 15 records, but its offsets have 11 now"):
        output.rerun(first.run_id, options={"failOnDataLoss": "false"})


@pytest.mark.extended
def test_rows_that_transform_leaves_out_are_not_missed(output: Output) -> None:
    first = output.load()
    assert output.rerun(first.run_id, transform=lambda frame: frame.where("offset % 2 = 0")).rows == 8
    assert output.rerun(first.run_id).rows == 15


@pytest.mark.extended
def test_records_deleted_before_they_were_loaded_are_data_loss(output: Output) -> None:
    output.load()
    output.kafka.produce(output.topic, 1, numbered(5, 5))
    output.kafka.delete_records(output.topic, 1, 8)
    with pytest.raises(DataLossError, match="begins at offset 8: 3 offsets from 5 on were deleted"):
        output.load()
    output.load(options={"failOnDataLoss": "false"})
    assert output.rows() == sorted([*expected(10, 5), (1, 8, "8"), (1, 9, "9")])


def test_a_topic_created_again_fails(output: Output) -> None:
    output.load()
    output.kafka.delete_topic(output.topic)
    output.kafka.create_topic(output.topic, 2)
    output.kafka.produce(output.topic, 0, numbered(20))
    with pytest.raises(TopicChangedError, match=f"topic {output.topic} was deleted and created again"):
        output.load()
    (manifest,) = runs(output.path)
    with pytest.raises(Exception, match=f"topic {output.topic} was deleted and created again"):
        output.rerun(manifest.run_id)
    assert output.rows() == expected(10, 5)


def test_another_cluster_fails(output: Output) -> None:
    output.load()
    there = open_storage(output.path)
    manifest = replace(CommitLog(there).manifest(1), cluster_id="another")
    there.write(commit_name(1), manifest.to_text())
    with pytest.raises(TopicChangedError, match="was loaded from cluster another"):
        output.load()


@pytest.mark.extended
def test_a_new_partition_is_loaded_from_its_start(output: Output) -> None:
    output.load()
    output.kafka.add_partitions(output.topic, 3)
    output.kafka.produce(output.topic, 2, numbered(2))
    output.load()
    assert output.rows() == expected(10, 5, 2)


def test_starting_at_a_time(output: Output) -> None:
    """Partitions without such new records are loaded once they have some."""
    output.load(from_timestamp=datetime.fromtimestamp(7, timezone.utc))
    assert output.rows() == expected(10)[7:]
    output.kafka.produce(output.topic, 1, numbered(2, 5))
    output.load(from_timestamp=7000)
    assert output.rows() == [*expected(10)[7:], (1, 5, "5"), (1, 6, "6")]


@pytest.mark.extended
def test_two_outputs_from_one_time_on_have_the_same_rows(output: Output) -> None:
    """However many loads each has, and when they ran."""
    output.load(from_timestamp=3000)
    output.kafka.produce(output.topic, 0, numbered(5, 10))
    output.load()
    at_once = replace(output, path=output.path / "at-once")
    at_once.load(from_timestamp=3000)
    assert at_once.rows() == output.rows() == [*expected(15)[3:], *expected(0, 5)[3:]]


@pytest.mark.parametrize("time", ["latest", True, 7.5, datetime(2026, 1, 1)])
def test_a_time_that_means_nothing_is_refused(output: Output, time: object) -> None:
    with pytest.raises(ConfigurationError, match="from_timestamp="):
        output.load(from_timestamp=time)


def test_transform_must_keep_where_rows_come_from(output: Output) -> None:
    with pytest.raises(ConfigurationError, match="must keep topic, partition, offset; offset is missing"):
        output.load(transform=lambda frame: frame.drop("offset"))
    with pytest.raises(ConfigurationError, match="partition is missing"):
        output.load(options={"columns": "value,topic,offset"})


def test_rows_may_be_left_out_by_transform(output: Output) -> None:
    result = output.load(transform=lambda frame: frame.where("offset > 7"))
    assert [(one.rows, one.first_offset, one.last_offset) for one in result.partitions] == [(2, 8, 9), (0, None, None)]
    assert output.load().run_id is None


def test_one_of_two_concurrent_loads_fails(output: Output) -> None:
    def another(frame: DataFrame) -> DataFrame:
        output.load()
        return frame

    with pytest.raises(ConflictError, match="another load"):
        output.load(transform=another)
    assert output.rows() == expected(10, 5)


@pytest.mark.extended
def test_loads_of_different_topics_into_one_output(output: Output, kafka: Kafka, topic: str) -> None:
    output.load()
    other = f"{topic}-other"
    kafka.create_topic(other)
    kafka.produce(other, 0, numbered(2))
    both = load(output.spark, [topic, other], output.path, bootstrap_servers=[kafka.bootstrap_servers])
    assert both.rows == 2
    assert read(output.spark, output.path).groupBy("topic").count().collect().__len__() == 2
    kafka.produce(other, 0, numbered(1, 2))
    assert load(output.spark, other, output.path, bootstrap_servers=kafka.bootstrap_servers).rows == 1
    assert output.load().run_id is None
