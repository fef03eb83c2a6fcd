"""Fixtures of storages: memory, a file system, and an object store in its own process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from s3fs import S3FileSystem

from aiokproto.spark.loads.opening import open_storage
from tests.spark.kafka import Kafka
from tests.spark.loads.harness import MemoryStorage, Place
from tests.spark.loads.output import Output, numbered
from tests.spark.loads.s3 import BUCKET, FakeS3, fake_s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def running_s3() -> Iterator[FakeS3]:
    with pytest.MonkeyPatch.context() as patch, fake_s3() as running:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        # The client makes five attempts, and the last ones would come after seconds.
        patch.setattr(S3FileSystem, "retries", 2)
        yield running


@pytest.fixture
def s3(running_s3: FakeS3) -> Iterator[FakeS3]:
    """Without faults until a test injects them."""
    running_s3.clear_faults()
    yield running_s3
    running_s3.clear_faults()


@pytest.fixture(params=["memory", pytest.param("local", marks=pytest.mark.thorough)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return Place(MemoryStorage)
    return Place(lambda: open_storage(tmp_path / secrets.token_hex(4)), stride=3)


@pytest.fixture
def on_s3(s3: FakeS3) -> Place:
    return Place(lambda: open_storage(f"s3://{BUCKET}/{secrets.token_hex(4)}/out"), stride=5)


@pytest.fixture
def output(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> Output:
    """Of a topic with two partitions, of ten and of five records."""
    kafka.create_topic(topic, 2)
    kafka.produce(topic, 0, numbered(10))
    kafka.produce(topic, 1, numbered(5))
    return Output(spark, kafka, topic, tmp_path / "with space")
