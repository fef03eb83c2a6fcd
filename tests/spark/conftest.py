"""One broker and one Spark for all tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from aiokproto.spark.worker import Worker
from tests.spark.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    with Kafka() as running:
        yield running


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """What tasks have, in this process."""
    running = Worker()
    yield running
    running.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Mark tests that use it with ``spark``."""
    from pyspark.sql import SparkSession

    from aiokproto.spark import register

    # Else workers run whatever `python3` is first on PATH, and find no pyarrow there.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()
