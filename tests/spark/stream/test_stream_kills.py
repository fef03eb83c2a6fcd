"""A real query that is killed at every step of its batches, one after the other, and started again."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokproto.records import BatchRecord
from tests.spark.kafka import Kafka
from tests.spark.stream.killed_query import STEPS, KilledQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.timeout(1800)]


def test_every_record_is_in_the_output_once_wherever_the_query_was_killed(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, 2)
    written = 0

    def more() -> None:
        nonlocal written
        for partition in range(2):
            kafka.produce(topic, partition, [BatchRecord(written + n, 1000, None, b"v") for n in range(5)])
        written += 5

    def query(at: str = "") -> int:
        return KilledQuery(topic, kafka.bootstrap_servers, str(tmp_path), at).run()

    for step in STEPS:
        more()
        # Spark requests no initial offset once there is a checkpoint.
        killed = query(step)
        assert killed == -signal.SIGKILL or (step.endswith("initialOffset") and killed == 0)
    more()
    assert query() == 0
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted((row.partition, row.offset) for row in rows) == [
        (partition, offset) for partition in range(2) for offset in range(written)
    ]
