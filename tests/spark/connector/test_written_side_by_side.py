"""The same rows written by Spark's own connector and by this sink: what is in the topics then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HEADERS = (
    "array(named_struct('key', 'n', 'value', cast(cast(id AS string) AS binary)),"
    " named_struct('key', 'n', 'value', null))"
)

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "strings with keys": ("concat('k', id % 41) AS key", "cast(id AS string) AS value"),
    "bytes, headers, nulls": (
        "if(id % 3 = 0, null, cast(concat('k', id % 41) AS binary)) AS key",
        "if(id % 5 = 0, null, cast(cast(id AS string) AS binary)) AS value",
        f"if(id % 4 = 0, null, {HEADERS}) AS headers",
        "cast(id % 3 AS int) AS partition",
    ),
    "partitions with and without": (
        "cast(id AS string) AS value",
        "concat('k', id % 41) AS key",
        "if(id % 2 = 0, null, cast(id % 3 AS int)) AS partition",
    ),
    "columns of no record": (
        "cast(id AS string) AS value",
        "cast(id % 41 AS string) AS key",
        "id AS offset",
        "current_timestamp() AS timestamp",
    ),
}

REFUSED: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "no value": (("'k' AS key",), "value", "the column value is required"),
    "a value that is a number": (("id AS value",), "value attribute unsupported type bigint", "column value is bigint"),
    "a partition that is long": (
        ("'v' AS value", "id AS partition"),
        "partition attribute unsupported type bigint",
        "column partition is bigint",
    ),
    "another case": (("'v' AS VALUE",), "value", "did you mean 'VALUE'?"),
}


def write(kafka: Kafka, connector: str, rows: DataFrame, mode: str = "append", **options: str) -> None:
    rows.write.format(connector).options(**kafka.options(**options)).mode(mode).save()


def stored(spark: SparkSession, kafka: Kafka, topic: str) -> list[Any]:
    rows = spark.read.format("aiokproto").options(**kafka.options(subscribe=topic, includeHeaders="true")).load()
    return rows.select("partition", "offset", "key", "value", "headers").orderBy("partition", "offset").collect()


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(columns, id=name, marks=() if name == "bytes, headers, nulls" else pytest.mark.extended)
        for name, columns in COLUMNS.items()
    ],
)
def test_both_write_the_same_records(
    official: SparkSession, kafka: Kafka, topic: str, columns: tuple[str, ...]
) -> None:
    """One task, so that the order is defined, too."""
    rows = official.range(0, 1000, 1, 1).selectExpr(*columns)
    found = []
    for connector in ("kafka", "aiokproto"):
        name = f"{topic}-{connector}"
        kafka.create_topic(name, 3)
        write(kafka, connector, rows, topic=name)
        found.append(stored(official, kafka, name))
    assert len(found[0]) == 1000
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("columns", "theirs", "ours"),
    [
        pytest.param(*case, id=name, marks=() if name == "a value that is a number" else pytest.mark.extended)
        for name, case in REFUSED.items()
    ],
)
def test_both_refuse(
    official: SparkSession, kafka: Kafka, topic: str, columns: tuple[str, ...], theirs: str, ours: str
) -> None:
    kafka.create_topic(topic)
    rows = official.range(1).selectExpr(*columns)
    for connector, text in (("kafka", theirs), ("aiokproto", ours)):
        with pytest.raises(Exception) as caught:
            write(kafka, connector, rows, topic=topic)
        assert text in str(caught.value)
    assert stored(official, kafka, topic) == []


@pytest.mark.extended
def test_the_topic_option_beats_the_column_in_both(official: SparkSession, kafka: Kafka, topic: str) -> None:
    rows = official.range(0, 10, 1, 1).selectExpr("cast(id AS string) AS value", "'nowhere' AS topic")
    for connector in ("kafka", "aiokproto"):
        kafka.create_topic(f"{topic}-{connector}")
        write(kafka, connector, rows, topic=f"{topic}-{connector}")
        assert len(stored(official, kafka, f"{topic}-{connector}")) == 10
