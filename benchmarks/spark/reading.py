"""Ways of reading a topic with Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from benchmarks.spark import others
from benchmarks.spark.data import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[[], object]

TUNED = {
    # With its defaults it polls 500 records at a time.
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(10 << 20),
    # At the end of a range it asks for more than the topic has, and would wait for it.
    "kafka.fetch.max.wait.ms": "5",
    "kafka.receive.buffer.bytes": str(4 << 20),
}
"""The best settings that were found for Spark's own connector, by hand."""

VALUE, ALL = ("value",), ("*",)

SLOW = tuple(source.name() for source in others.SOURCES)


def ways(spark: SparkSession, servers: str, topic: str, *, official: bool) -> Mapping[str, Work]:
    """Name → what reads the whole topic, and drops the rows."""

    def frame(connector: str, options: Mapping[str, str]) -> DataFrame:
        return (
            spark.read.format(connector).options(**{"kafka.bootstrap.servers": servers, "subscribe": topic}, **options)
        ).load()

    def read(connector: str, select: tuple[str, ...] = ALL, **options: str) -> Work:
        return lambda: _drop(frame(connector, options).select(*select))

    found = {"aiokproto": read("aiokproto"), "aiokproto, value only": read("aiokproto", columns=",".join(VALUE))}
    if official:
        found |= {
            "Spark's own": read("kafka"),
            "Spark's own, tuned": read("kafka", ALL, **TUNED),
            "Spark's own, tuned, value only": read("kafka", VALUE, **TUNED),
        }
    for source in others.SOURCES:
        spark.dataSource.register(source)
        found[source.name()] = read(source.name())
    return found


def filtered(spark: SparkSession, servers: str, topic: str, rows: int, *, official: bool) -> Mapping[str, Work]:
    """Name → what reads a hundredth of the offsets, or one partition."""
    from aiokproto.spark import register

    register(spark, pushdown=True)
    ends = rows // PARTITIONS // 100

    def read(connector: str, where: str, **options: str) -> Work:
        given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
        return lambda: _drop(spark.read.format(connector).options(**given).load().where(where))

    found = {}
    for name, where in (("1 % of offsets", f"offset < {ends}"), ("one partition", "partition = 0")):
        found[f"aiokproto, pushdown: {name}"] = read("aiokproto", where)
        if official:
            found[f"Spark's own, tuned: {name}"] = read("kafka", where, **TUNED)
    return found


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
