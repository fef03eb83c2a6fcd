"""Through Spark: the topic becomes Parquet, every row with its offset, and a small report, which goes to a topic."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow.dataset
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from aiokproto.spark import LoadResult
from aiokproto.spark import load as load_topics
from aiokproto.spark import read as read_output

FIELDS = "carrier string, flight int, origin string, dest string, dep_delay double, arr_delay double"


def session() -> SparkSession:
    """Spark on this machine, on two cores, quiet."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("aiokproto flights")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def parse(rows: DataFrame) -> DataFrame:
    """The columns of the report, beside what Kafka gave."""
    return rows.withColumn("flight", f.from_json(f.col("value").cast("string"), FIELDS))


def load(spark: SparkSession, bootstrap: str, topic: str, out: Path) -> LoadResult:
    """One batch load: a task per partition range, the manifest of offsets committed last."""
    return load_topics(spark, [topic], str(out), bootstrap_servers=bootstrap, transform=parse)


def worst_arrivals(spark: SparkSession, out: Path) -> list[tuple[str, int, float]]:
    """The ten carriers with the worst mean arrival delay: carrier, flights that arrived, minutes late."""
    flights = read_output(spark, str(out)).select("flight.*").where("arr_delay is not null")
    mean = flights.groupBy("carrier").agg(f.count("*").alias("flights"), f.mean("arr_delay").alias("late"))
    return [(row["carrier"], row["flights"], row["late"]) for row in mean.orderBy(f.desc("late")).limit(10).collect()]


REPORT = "carrier string, flights bigint, late double"


def publish(spark: SparkSession, bootstrap: str, topic: str, worst: list[tuple[str, int, float]]) -> None:
    """Write the report to a topic: the carrier as the key, all of it as JSON."""
    rows = spark.createDataFrame(worst, REPORT).selectExpr("carrier AS key", "struct(*) AS value")
    writer = rows.write.format("aiokproto").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    writer.option("value.format", "json").mode("append").save()


def published(spark: SparkSession, bootstrap: str, topic: str) -> list[tuple[str, int, float]]:
    """Read the report from its topic, the worst first."""
    reader = spark.read.format("aiokproto").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    rows = reader.option("value.format", "json").option("value.schema", REPORT).load().select("value.*")
    return [(row["carrier"], row["flights"], row["late"]) for row in rows.orderBy(f.desc("late")).collect()]


def differences(out: Path, expected: dict[int, list[bytes]]) -> list[str]:
    """Compare the Parquet files, read without Spark, with the sent flights: every value once, in its place."""
    files = [str(path) for path in sorted(out.rglob("*.parquet"))]
    table = pyarrow.dataset.dataset(files).to_table(["partition", "offset", "value"])
    found: dict[int, dict[int, bytes]] = {}
    problems = []
    for partition, offset, value in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
        if offset in found.setdefault(partition, {}):
            problems.append(f"partition {partition} offset {offset} stands twice in {out}")
        found[partition][offset] = value
    for partition in sorted(set(expected) | set(found)):
        sent, got = expected.get(partition, []), found.get(partition, {})
        if sorted(got) != list(range(len(sent))):
            problems.append(f"partition {partition}: {len(sent)} records were sent, offsets of {len(got)} differ")
        wrong = [offset for offset, value in enumerate(sent) if got.get(offset) != value]
        if wrong:
            problems.append(f"partition {partition}: {len(wrong)} values differ, the first at offset {wrong[0]}")
    return problems
