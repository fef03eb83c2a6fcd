"""Ways of writing rows to a topic with Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchmarks.spark.reading import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TUNED = {
    "kafka.linger.ms": "5",
    "kafka.batch.size": "1000000",
    "kafka.buffer.memory": str(128 << 20),
}


def ways(
    spark: SparkSession, servers: str, topic: str, size: int, rows: int, cores: int, *, official: bool
) -> Mapping[str, Work]:
    """Name → what writes rows that cost Spark nothing to make, so that the way into the topic is measured."""

    def write(connector: str, **options: str) -> Work:
        given = {"kafka.bootstrap.servers": servers, "topic": topic, **options}

        def run() -> None:
            made = spark.range(0, rows, 1, cores).selectExpr(f"X'{'78' * size}' AS value")
            made.write.format(connector).options(**given).mode("append").save()

        return run

    found = {
        "aiokproto": write("aiokproto"),
        "aiokproto, exactly once": write("aiokproto", semantics="exactly_once", transactionalIdPrefix=topic),
    }
    if official:
        found |= {"Spark's own": write("kafka"), "Spark's own, tuned": write("kafka", **TUNED)}
    return found
