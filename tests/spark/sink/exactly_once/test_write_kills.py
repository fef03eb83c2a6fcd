"""A real query whose processes are killed at every step of a batch, one after the other, and that is started again."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokproto.records import BatchRecord
from tests.spark.kafka import Kafka
from tests.spark.sink.exactly_once.killed_write import DRIVER, TASK, KilledWrite
from tests.spark.sink.exactly_once.test_writes import committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def killed_at_each_step(spark: SparkSession, kafka: Kafka, topic: str, folder: Path, steps: Sequence[str]) -> int:
    """Kill it at each step, each time with more to write; how many records there are in the end."""
    source = f"{topic}-source"
    kafka.create_topic(source, 2)
    kafka.create_topic(topic, 2)
    written = 0
    for at in (*steps, ""):
        for partition in range(2):
            records = [BatchRecord(written + n, 1000, None, b"%d-%d" % (partition, written + n)) for n in range(5)]
            kafka.produce(source, partition, records)
        written += 5
        status = KilledWrite(source, topic, kafka.bootstrap_servers, str(folder), at).run()
        assert status == (-signal.SIGKILL if at in DRIVER else 0), at
        if status == 0:
            expected = sorted(f"{partition}-{n}" for partition in range(2) for n in range(written))
            assert committed(spark, kafka, topic) == expected
    return 2 * written


@pytest.mark.extended
@pytest.mark.slow
def test_what_a_killed_query_has_decided_is_committed_once(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    assert killed_at_each_step(spark, kafka, topic, tmp_path, ["after state 0"]) == 20


@pytest.mark.thorough
def test_every_step(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    steps = (*DRIVER, *TASK)
    assert killed_at_each_step(spark, kafka, topic, tmp_path, steps) == 10 * (len(steps) + 1)
