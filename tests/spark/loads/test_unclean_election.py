"""Loads before and after a real Kafka elects a leader that lacks records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.spark import runs
from aiokproto.spark.truncation import TruncationError
from tests.kafka import admin
from tests.kafka.pool import RunningKafka
from tests.spark.kafka import Kafka
from tests.spark.loads.output import Output, expected, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


class RealKafka(Kafka):
    """A client of a real cluster."""

    def __init__(self, cluster: RunningKafka) -> None:
        super().__init__()
        self.bootstrap_servers = cluster.bootstrap_servers

    async def _start(self) -> None:
        self.client = ClusterClient(ClusterConfig.parse({"bootstrap_servers": self.bootstrap_servers}))
        await self.client.start()

    async def _stop(self) -> None:
        await self.client.close()


@pytest.fixture
def real(kafka3: RunningKafka) -> Iterator[Kafka]:
    with RealKafka(kafka3) as running:
        yield running


@pytest.mark.exclusive
@pytest.mark.extended
def test_an_unclean_election(
    spark: SparkSession, kafka3: RunningKafka, real: Kafka, topic: str, tmp_path: Path
) -> None:
    # The records have timestamps of 1970.
    admin.create_topic(kafka3, topic, 1, 2, {"retention.ms": "-1"})
    output = Output(spark, real, topic, tmp_path / "out")
    real.produce(topic, 0, numbered(10))
    leader, (follower,) = admin.replicas(kafka3, topic, 0)
    kafka3.stop_broker(follower)
    real.produce(topic, 0, numbered(5, 10))
    assert output.load().rows == 15
    kafka3.stop_broker(leader, hard=True)
    kafka3.start_broker(follower)
    assert admin.elect_unclean(kafka3, topic, 0) == follower
    with RealKafka(kafka3) as after:
        after.produce(topic, 0, numbered(8, 10))

    with pytest.raises(TruncationError, match=r"up to offset 15 of .* only up to offset 10 of leader epoch") as caught:
        output.load()
    (divergence,) = caught.value.divergences.values()
    assert (divergence.offset, divergence.end) == (10, 15)
    assert output.rows() == expected(15)

    assert output.load(on_truncation="continue").rows == 8
    assert [one.diverged for one in runs(output.path)[1].partitions] == [divergence]
    assert output.rows() == sorted([*expected(15), *[(0, offset, str(offset)) for offset in range(10, 18)]])
    kafka3.start_broker(leader)
