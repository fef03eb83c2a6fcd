"""An output that Spark loads into from one topic, as tests handle it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiokproto.records import BatchRecord
from aiokproto.spark import LoadResult, load, read, rerun
from tests.spark.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def numbered(count: int, start: int = 0) -> list[BatchRecord]:
    """Records with their own offset in the value, and 1000 times as much as timestamp."""
    return [BatchRecord(offset, 1000 * offset, b"k", b"%d" % offset) for offset in range(start, start + count)]


@dataclass
class Output:
    """One output, loaded from one topic."""

    spark: SparkSession
    kafka: Kafka
    topic: str
    path: Path

    def load(self, **arguments: object) -> LoadResult:
        given: dict[str, object] = {"bootstrap_servers": self.kafka.bootstrap_servers, **arguments}
        return load(self.spark, self.topic, self.path, **given)  # type: ignore[arg-type]

    def rerun(self, run_id: str | None, **arguments: object) -> LoadResult:
        assert run_id is not None
        given: dict[str, object] = {"bootstrap_servers": self.kafka.bootstrap_servers, **arguments}
        return rerun(self.spark, self.path, run_id, **given)  # type: ignore[arg-type]

    def rows(self) -> list[tuple[int, int, str]]:
        found = read(self.spark, self.path).selectExpr("partition", "offset", "cast(value AS string)").collect()
        return sorted((row[0], row[1], row[2]) for row in found)

    def data(self) -> set[str]:
        return {path.name for path in self.path.glob("run=*")}


def expected(*counts: int) -> list[tuple[int, int, str]]:
    return [(partition, offset, str(offset)) for partition, count in enumerate(counts) for offset in range(count)]
